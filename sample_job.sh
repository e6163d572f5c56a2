#!/bin/bash
#SBATCH --job-name=iostats-sample
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --time=00:10:00
#PBS -N iostats-sample
#PBS -l select=4:ncpus=1
#PBS -l walltime=00:10:00
#
# A whole job with a known answer, for Slurm (sbatch), PBS (qsub) and no batch system (bash).
#
# Its nodes share this work, whatever their number:
#
#     23 files of 37 MiB written, and read back       851.0 MiB each way, 13,616 calls each way
#     41 more opens, so 23 + 23 + 41                  87 opens, 87 closes
#     13 directories made                                 13 mkdirs, 23 files created
#
# and the table at the end has to say just that.  Steps 1, 2, 4 and 5 are what your own job
# script needs; step 3 is where your program stands.
#
# What can be set:
#     DATA           a directory on Lustre to work in          (default: the directory of the submission)
#     IOSTATS_HOME   where iostats_client.py lies           (default: where this script is; without
#                                                           one `iostats` on the PATH is used)
#     PYTHON         for the server; needs iostats[server]  (default: python3)
#     NODE_PYTHON    for the client; needs nothing          (default: python3)
#     REPORT         where the report goes                  (default: the job's output)
#     LAUNCH         a command that runs its arguments once on each node     (default: by the
#     NODES          the list of nodes, or their number                       batch system)
#     SERVER_HOST    this host, as the nodes know it
#     NODE_DATA      DATA on one node, where it is not at the same place on all

set -u

# ---- the batch system's words ------------------------------------------------------------------
if [ -n "${SLURM_JOB_ID:-}" ]; then
    JOB=$SLURM_JOB_ID; HERE=${SLURM_SUBMIT_DIR:-$PWD}
    LAUNCH=${LAUNCH:-srun --ntasks-per-node=1 --ntasks=$SLURM_JOB_NUM_NODES --overlap}
    NODES=${NODES:-$SLURM_JOB_NODELIST}
    RANK=${SLURM_NODEID:-0}; COUNT=${SLURM_JOB_NUM_NODES:-1}
elif [ -n "${PBS_JOBID:-}" ]; then
    JOB=$PBS_JOBID; HERE=${PBS_O_WORKDIR:-$PWD}
    LAUNCH=${LAUNCH:-pbsdsh --}                # once for each line of the list: one a node here
    # pbsdsh does not pass the environment on, but a node finds itself in the list.
    mapfile -t HOSTS < <(sort -u "$PBS_NODEFILE")
    NODES=${NODES:-$(IFS=,; echo "${HOSTS[*]%%.*}")}
    COUNT=${#HOSTS[@]}; RANK=0
    for i in "${!HOSTS[@]}"; do
        [ "${HOSTS[$i]%%.*}" = "$(hostname -s)" ] && RANK=$i
    done
else
    JOB=${JOB:-sample-$$}; HERE=$PWD
    LAUNCH=${LAUNCH:-}; NODES=${NODES:-1}
    RANK=${RANK:-0}; COUNT=${COUNT:-1}
fi
export JOB
SCRIPT=$(readlink -f "${BASH_SOURCE[0]}")
IOSTATS_HOME=${IOSTATS_HOME:-$(dirname "$SCRIPT")}
# A batch system copies the script elsewhere; then iostats is where the job was submitted.
[ -e "$IOSTATS_HOME/iostats_client.py" ] || IOSTATS_HOME=$HERE
# Or where `make install-...` has put it.
[ -e "$IOSTATS_HOME/iostats_client.py" ] || IOSTATS_HOME=/usr/local/lib/iostats
DATA=${DATA:-$HERE}
DIRECTORY=${NODE_DATA:-$DATA}/iostats-sample-${JOB//[^A-Za-z0-9._-]/_}
SERVER_HOST=${SERVER_HOST:-$(hostname -s)}
CLIENT=("${NODE_PYTHON:-python3}" -I -S "$IOSTATS_HOME/iostats_client.py")
SERVER=("${PYTHON:-python3}" "$IOSTATS_HOME/iostats_server.py")
if [ ! -e "$IOSTATS_HOME/iostats_client.py" ]; then         # installed by pip or a module
    IOSTATS_HOME=$(dirname "$(readlink -f "$(command -v iostats)")")/../share/iostats
    CLIENT=(iostats) SERVER=(iostats server)
fi
read -ra OPTIONS <<<"${IOSTATS_OPTIONS:-} --job $JOB"

# ---- what each node does, when this script calls itself on it -------------------------------------
work() {                                    # this node's share: every COUNT-th piece
    local i
    for ((i = RANK; i < 23; i += COUNT)); do
        dd if=/dev/zero of="$DIRECTORY/file$i" bs=64k count=592 status=none
    done
    for ((i = RANK; i < 23; i += COUNT)); do
        dd if="$DIRECTORY/file$i" of=/dev/null bs=64k status=none
    done
    for ((i = RANK; i < 41; i += COUNT)); do : <"$DIRECTORY/file$RANK"; done
    for ((i = RANK; i < 13; i += COUNT)); do mkdir "$DIRECTORY/directory$i"; done
}
case ${1:-} in
    --start) exec "${CLIENT[@]}" start "${OPTIONS[@]}" ;;
    --work)  work; exit ;;
    --stop)  exec "${CLIENT[@]}" stop --server "$SERVER_HOST" "${OPTIONS[@]}" ;;
esac
# The environment is named, for launchers that do not pass it on; the script is the one in
# IOSTATS_HOME, because a batch system's copy of it is on the first node only.
on_each_node() {
    $LAUNCH env JOB="$JOB" DATA="$DATA" IOSTATS_HOME="$IOSTATS_HOME" SERVER_HOST="$SERVER_HOST" \
        IOSTATS_OPTIONS="${IOSTATS_OPTIONS:-}" NODE_PYTHON="${NODE_PYTHON:-python3}" \
        "$IOSTATS_HOME/sample_job.sh" "$1"
}

# ---- the job -----------------------------------------------------------------------------------
mkdir -p "$DIRECTORY" || exit

# 1. The server of this job, on the job's first node: it waits for all nodes, then prints.
"${SERVER[@]}" --job "$JOB" --nodes "$NODES" \
    ${REPORT:+--output "$REPORT"} ${IOSTATS_SERVER_OPTIONS:-} &
server=$!

# 2. Each node keeps its counters as they are before the work.
on_each_node --start

# 3. The work: your program.
on_each_node --work

# 4. Each node sends what has changed.
kill -0 "$server" 2>/dev/null || echo "sample_job: the server is not running; its error is above" >&2
on_each_node --stop

# 5. The server prints the table, and the job ends.
wait "$server"
status=$?
rm -rf "$DIRECTORY"
exit "$status"
