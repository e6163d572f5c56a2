# Slurm for cluster.sh; with munge, MariaDB and slurmdbd.
#
#     DIRECTORY/slurm       /etc/slurm

configure_system() {
  mkdir -p "$F"/{daemons,munge,mysql,slurm,spool,state}
  : >"$F/log/slurmctld.log"; : >"$F/log/slurmdbd.log"
  install -m 600 /dev/null "$F/slurm/slurmdbd.conf"
  chown slurm: "$F"/{state,daemons,slurm/slurmdbd.conf,log/slurmctld.log,log/slurmdbd.log}
  head -c 128 /dev/urandom >"$F/munge/key"
  chmod 600 "$F/munge/key"
  chown munge: "$F/munge" "$F/munge/key"
  do_nothing prolog epilog prolog_slurmctld epilog_slurmctld task_prolog mail
  # A slow machine is no broken one: a start, an answer or an end that takes its time is one.
  # A job that is requeued begins again after cred_expire: see run_again() in cluster.py.
  # DeferBatch: a node that hears of the job's step before its prolog runs no prolog (docs/how-to/batch.md).
  cat >"$F/slurm/slurm.conf" <<END
ClusterName=sim
SlurmctldHost=ctl($NET.1)
SlurmUser=slurm
AuthType=auth/munge
AuthInfo=cred_expire=120
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=100
GresTypes=gpu
SlurmdParameters=config_overrides
ReturnToService=2
SlurmctldPidFile=$F/daemons/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmdSpoolDir=$F/spool/%n
StateSaveLocation=$F/state
SlurmctldLogFile=$F/log/slurmctld.log
SlurmdLogFile=$F/log/slurmd-%n.log
SlurmctldTimeout=300
SlurmdTimeout=120
MessageTimeout=60
TCPTimeout=30
BatchStartTimeout=120
UnkillableStepTimeout=300
InactiveLimit=0
KillWait=30
MinJobAge=1000
CompleteWait=0
SchedulerParameters=batch_sched_delay=0,sched_min_interval=1000,sched_interval=1,bf_interval=1
PrologFlags=Alloc,DeferBatch
Prolog=$F/hooks/prolog
Epilog=$F/hooks/epilog
TaskProlog=$F/hooks/task_prolog
PrologSlurmctld=$F/hooks/prolog_slurmctld
EpilogSlurmctld=$F/hooks/epilog_slurmctld
MailProg=$F/hooks/mail
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=$NET.1
AccountingStoreFlags=job_comment
NodeName=node[1-$N] CPUs=16 RealMemory=4000 Gres=gpu:2 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
END
  printf 'Name=gpu File=%s\n' /dev/zero /dev/full >"$F/slurm/gres.conf"
  echo "CgroupPlugin=cgroup/v1" >"$F/slurm/cgroup.conf"
  cat >"$F/slurm/slurmdbd.conf" <<END
AuthType=auth/munge
DbdHost=ctl
DbdAddr=$NET.1
SlurmUser=slurm
LogFile=$F/log/slurmdbd.log
PidFile=$F/daemons/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=slurm
StorageLoc=slurm_acct_db
END
}

prepare() {
  inside ctl mount -t tmpfs -o mode=755 tmpfs "$F/mysql" &&
    inside ctl mkdir -p /etc/slurm && inside ctl mount --bind "$F/slurm" /etc/slurm || die "mounts"
  make_database & database=$!
  inside ctl setpriv --reuid munge --regid munge --init-groups munged --key-file="$F/munge/key" \
    --pid-file="$F/munge/pid" --log-file="$F/munge/log" --seed-file="$F/munge/seed" \
    2>>"$F/log/munged.log" || die "munged does not start"
}
serve() {
  wait $database || die "MariaDB does not start"
  inside ctl slurmdbd || die "slurmdbd does not start"
  until_true 100 inside ctl sacctmgr -n show cluster || die "slurmdbd does not answer"
  { inside ctl sacctmgr -i add cluster sim &&
    inside ctl sacctmgr -i add account physics Description=p Organization=p Cluster=sim &&
    inside ctl sacctmgr -i add user iostats-alice,iostats-bob Account=physics Cluster=sim
  } >"$F/log/sacctmgr.log" 2>&1 || die "sacctmgr"
  inside ctl slurmctld || die "slurmctld does not start"
}
daemon() { mkdir -p "$F/spool/$1"; inside "$1" slurmd; }

make_database() {
  local options=(--no-defaults --user=mysql --datadir="$F/mysql/data")
  inside ctl install -d -o mysql -g mysql /run/mysqld "$F/mysql/data"
  inside ctl mariadb-install-db "${options[@]}" --skip-test-db --skip-name-resolve --force \
    >"$F/log/mariadb-install.log" 2>&1 || return 1
  inside ctl setsid -f mariadbd "${options[@]}" --socket=/run/mysqld/mysqld.sock \
    --skip-networking --skip-grant-tables --innodb-buffer-pool-size=64M --innodb-log-file-size=16M \
    --innodb-lock-wait-timeout=900 --performance-schema=off --pid-file="$F/mysql/data/pid" \
    </dev/null >"$F/log/mariadb.log" 2>&1
  until_true 100 inside ctl mariadb --no-defaults -e 'CREATE DATABASE IF NOT EXISTS slurm_acct_db'
}
all_idle() { [ "$(inside ctl sinfo -h -N -t idle -o %N | wc -l)" = "$N" ]; }
how_they_are() { inside ctl sinfo -h -N -o '%N %t'; }
