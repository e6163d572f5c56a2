#!/bin/bash
# A real cluster on one machine, for the tests: a controller and N nodes, each with its own network,
# host name, processes, /tmp, /run and /dev/shm.  cluster_SYSTEM.sh beside this has the batch system.
#
#     cluster.sh DIRECTORY N PYTHON PACKAGES SYSTEM  as root; cluster.py starts it
#
# DIRECTORY is a directory whose path is neither below /tmp nor below /run; PYTHON is the directory of a
# Python installation, PACKAGES one of its packages, which the nodes see as DIRECTORY/packages.  Every
# user there can read both, also if PYTHON is below /root: then the cluster has another /root.
#
# It says "up" when all nodes are idle, and then obeys lines on its standard input: "node NAME"
# starts a node again that was killed ("up" when it runs, "failed" when not).  At the end of its
# input, or when it is told to end, everything goes: each namespace has a process 1, and with that
# die its processes, mounts and interfaces.  Outside of DIRECTORY nothing is written: /etc is a copy,
# so the users and the configuration are there for the cluster only.
#
#     DIRECTORY/hooks       prolog, epilog, ...
#     DIRECTORY/home/USER   homes (iostats-bob has none)     DIRECTORY/work/USER  where jobs are submitted
#     DIRECTORY/log         logs of all daemons              DIRECTORY/tmp/NAME   /tmp of a node
#     DIRECTORY/pid/NAME    process 1 of a node, by its number outside
set -u
F=$1 N=$2 PYTHON=$3 PACKAGES=$4 SYSTEM=$5
NET=10.77.0
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
unset "${!SLURM@}" "${!SBATCH@}" "${!SACCT@}" "${!MUNGE@}" "${!SGE@}"

die() { echo "cluster.sh: $*" >&2; tail -n 4 "$F"/log/* >&2 2>/dev/null; exit 1; }
down() {
  local job
  trap '' TERM INT HUP
  # The child of an unshare is a process 1, which goes after all of its own; then goes unshare.
  for job in $(jobs -p); do pkill -KILL -P "$job" || kill -KILL "$job"; done 2>/dev/null
  wait
  cd / && rm -rf --one-file-system "$F"
}
until_true() {                                      # SECONDS COMMAND...
  local ends=$((SECONDS + $1)); shift
  until "$@" >/dev/null 2>&1; do [ $SECONDS -lt $ends ] || return 1; sleep 0.02; done
}
inside() { local name=$1; shift; nsenter -t "$(cat "$F/pid/$name")" -m -u -i -n -p -r -w "$@"; }

configure() {
  mkdir -p "$F"/{etc,home,hooks,log,packages,pid,python,tmp,work} || return 1
  chmod 755 "$F"
  configure_system
}
do_nothing() {                                      # HOOK...
  local i
  for i; do printf '#!/bin/sh\nexit 0\n' >"$F/hooks/$i"; chmod 755 "$F/hooks/$i"; done
}

# What process 1 of the controller and of each node does.  The controller's mounts are made first;
# the nodes begin with a copy of them.
INIT='
name=$1 F=$2 N=$3 PYTHON=$4 PACKAGES=$5
set -e
if [ "$name" = ctl ]; then
  # What is mounted here must not appear outside.  In a chroot / is no mount; who enters his own
  # namespace has its root as /.
  mount --make-rprivate / 2>/dev/null ||
    nsenter --mount=/proc/self/ns/mnt mount --make-rprivate / || exit 1
  # Mounts of other tests, whose ends would wait for this copy.
  umount --all --lazy --types fuse.simlustre 2>/dev/null || :
  mount --bind "$PACKAGES" "$F/packages"
  mount --bind "$PYTHON" "$F/python"
  closed="" directory=$PYTHON
  while [ "$directory" != / ]; do
    case $(stat -c %a "$directory") in *[02468]) closed=$directory ;; esac
    directory=$(dirname "$directory")
  done
  if [ -n "$closed" ]; then
    # Under its own path: a Python can know the place of its libraries by heart.
    mount -t tmpfs -o mode=755 tmpfs "$closed"
    mkdir -p "$PYTHON"
    mount --bind "$F/python" "$PYTHON"
  fi
  mount -t tmpfs -o mode=755 tmpfs "$F/etc"
  cp -a /etc/. "$F/etc/"
  cd "$F/etc"
  rm -f hosts mtab
  ln -s /proc/self/mounts mtab
  { echo "127.0.0.1 localhost"; echo "10.77.0.1 ctl"
    for i in $(seq "$N"); do echo "10.77.0.$((10 + i)) node$i"; done; } >hosts
  for user in alice:64123 bob:64137; do
    uid=${user#*:} user=iostats-${user%:*}
    sed -i "/^$user:/d" passwd group
    echo "$user:x:$uid:$uid::$F/home/$user:/bin/bash" >>passwd
    echo "$user:x:$uid:" >>group
    install -d -o "$uid" -g "$uid" -m 755 "$F/work/$user"
  done
  install -d -o 64123 -g 64123 -m 755 "$F/home/iostats-alice"
  mount --bind "$F/etc" /etc
  cd /
fi
mount -t proc proc /proc
hostname "$name"
ip link set lo up
mkdir -p "$F/tmp/$name"
chmod 1777 "$F/tmp/$name"
mount --bind "$F/tmp/$name" /tmp
mount -t tmpfs -o mode=755 tmpfs /run
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
mkdir /run/munge /run/lock
[ ! -d "$F/munge" ] || mount --bind "$F/munge" /run/munge
: >"$F/pid/$name.ready"
trap : TERM INT
set +e
while :; do sleep 3600 & wait; done'

begin() {                                           # NAME: its namespaces
  local name=$1 from=() first unshare
  [ "$name" = ctl ] || from=(nsenter -t "$(cat "$F/pid/ctl")" -m -r -w)
  rm -f "$F/pid/$name.ready"
  # With this process dies unshare, and with that process 1.
  setpriv --pdeathsig KILL "${from[@]}" \
    unshare --net --uts --mount --pid --ipc --fork --kill-child --propagation unchanged \
    bash -c "$INIT" cluster "$name" "$F" "$N" "$PYTHON" "$PACKAGES" \
    </dev/null >>"$F/log/$name.log" 2>&1 &
  unshare=$!
  until_true 100 ready "$name" $unshare
  rm "$F/pid/$name.ready" && first=$(pgrep -P $unshare) && echo "$first" >"$F/pid/$name"
}
ready() { [ -e "$F/pid/$1.ready" ] || ! kill -0 "$2"; }
connect() {                                         # nodeI: to the bridge of the controller
  local i=${1#node}
  # What a node that was killed had there may not be quite gone yet.  The new one has its address, so
  # that nobody who has talked to the old one talks to nobody.
  nsenter -t "$(cat "$F/pid/ctl")" -n ip link delete v$i 2>/dev/null
  nsenter -t "$(cat "$F/pid/ctl")" -n ip -batch - <<END || return 1
link add v$i type veth peer name eth0 address 02:00:0a:4d:00:$(printf %02x $((10 + i))) netns $(cat "$F/pid/node$i")
link set v$i master br0 up
END
  inside "node$i" ip -batch - <<END
addr add $NET.$((10 + i))/24 dev eth0
link set eth0 up
END
}
# configure_system, prepare (once the controller's namespaces are there), serve (once the nodes' are),
# daemon NODE, all_idle, how_they_are
. "$(dirname "$0")/cluster_$SYSTEM.sh"

trap down EXIT
trap 'exit 1' TERM INT HUP
configure || die "cannot write to $F"
begin ctl || die "no namespaces (mount, network, pid)"
prepare
nsenter -t "$(cat "$F/pid/ctl")" -n ip -batch - <<END || die "no bridge"
link add br0 type bridge
addr add $NET.1/24 dev br0
link set br0 up
END
# Not in the background: a node goes with the process that began it.
for i in $(seq "$N"); do begin "node$i" && connect "node$i" || die "no namespaces for node$i"; done
serve
starting=()
for i in $(seq "$N"); do daemon "node$i" & starting+=($!); done
for one in "${starting[@]}"; do wait "$one" || die "a daemon does not start"; done
until_true 100 all_idle || die "not all nodes are idle: $(how_they_are | xargs)"
echo up
while read -r command name; do
  case $command in
    node) if begin "$name" && connect "$name" && daemon "$name"; then echo up; else echo failed; fi ;;
    *) echo "unknown: $command" ;;
  esac
done
