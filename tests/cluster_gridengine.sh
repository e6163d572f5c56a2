# Grid Engine for cluster.sh, as Debian has it (8.1.9).
#
#     DIRECTORY/sge/root    /var/lib/gridengine              DIRECTORY/sge/spool  /var/spool/gridengine
#
# One queue, all.q, with 4 slots on each node, and two parallel environments: `spread` puts one
# process on each node and lets qrsh start them, `spread_each` is the same with an entry in the
# accounting for each of them.

ROOT=/var/lib/gridengine SPOOL=/var/spool/gridengine
# Jobs get the environment of the daemons.
sge() { local name=$1; shift; inside "$name" env -i PATH="$PATH" LC_ALL=C SGE_ROOT=$ROOT "$@"; }
as_manager() { sge ctl setpriv --reuid sgeadmin --regid sgeadmin --clear-groups "$@"; }

configure_system() {
  mkdir -p "$F"/sge/{conf,root/default/common,spool/{qmaster/job_scripts,spooldb,execd}} || return 1
  cp -a $ROOT/{bin,lib,util,utilbin} "$F/sge/root/" || return 1
  echo ctl >"$F/sge/root/default/common/act_qmaster"
  echo sim >"$F/sge/root/default/common/cluster_name"
  cat >"$F/sge/root/default/common/bootstrap" <<END
admin_user              sgeadmin
default_domain          none
ignore_fqdn             true
spooling_method         berkeleydb
spooling_lib            libspoolb
spooling_params         $SPOOL/spooldb
binary_path             /usr/sbin
qmaster_spool_dir       $SPOOL/qmaster
security_mode           none
listener_threads        2
worker_threads          2
scheduler_threads       1
END
  chown -R sgeadmin: "$F/sge"
  do_nothing prolog epilog
}
prepare() {
  inside ctl mount --bind "$F/sge/root" $ROOT && inside ctl mount --bind "$F/sge/spool" $SPOOL &&
    as_manager /usr/share/gridengine/scripts/init_cluster $ROOT default $SPOOL/spooldb \
      sgeadmin       >"$F/log/init_cluster.log" 2>&1 || die "no spool for Grid Engine"
}
serve() {
  sge ctl sge_qmaster || die "sge_qmaster does not start"
  until_true 100 sge ctl qconf -sm || die "sge_qmaster does not answer"
  make_cluster >"$F/log/qconf.log" 2>&1 || die "qconf"
}
make_cluster() {
  local i conf=$F/sge/conf nodes=()
  for i in $(seq "$N"); do nodes+=("node$i"); done
  as_manager qconf -ah "$(IFS=,; echo "${nodes[*]}")" &&
  as_manager qconf -as "ctl,$(IFS=,; echo "${nodes[*]}")" || return 1
  # A job starts when it can; the accounting hears of its end late, as it does by default (15 s).
  as_manager qconf -sconf global | sed -E "
    s|^prolog .*|prolog root@$F/hooks/prolog|; s|^epilog .*|epilog root@$F/hooks/epilog|
    s|^load_report_time .*|load_report_time 00:00:01|
    s|^mailer .*|mailer /bin/true|
    s|^reporting_params .*|reporting_params accounting=true reporting=false flush_time=00:00:01 \
accounting_flush_time=00:00:04 joblog=false sharelog=00:00:00|" >"$conf/global" || return 1
  as_manager qconf -Mconf "$conf/global" || return 1
  as_manager qconf -ssconf | sed -E "
    s|^schedule_interval .*|schedule_interval 0:0:1|; s|^flush_submit_sec .*|flush_submit_sec 1|
    s|^flush_finish_sec .*|flush_finish_sec 1|; s|^load_adjustment_decay_time .*|load_adjustment_decay_time 0:0:0|
    s|^job_load_adjustments .*|job_load_adjustments NONE|" >"$conf/sched" || return 1
  as_manager qconf -Msconf "$conf/sched" || return 1
  for i in spread:TRUE spread_each:FALSE; do
    cat >"$conf/pe" <<END
pe_name            ${i%:*}
slots              999
user_lists         NONE
xuser_lists        NONE
start_proc_args    NONE
stop_proc_args     NONE
allocation_rule    1
control_slaves     TRUE
job_is_first_task  FALSE
urgency_slots      min
accounting_summary ${i#*:}
qsort_args         NONE
END
    as_manager qconf -Ap "$conf/pe" || return 1
  done
  printf 'group_name @allhosts\nhostlist %s\n' "${nodes[*]}" >"$conf/hosts"
  as_manager qconf -Ahgrp "$conf/hosts" || return 1
  # `qconf -aq` asks an editor: this one writes what is wanted over the defaults.
  printf '#!/bin/sh\nsed -i -E "%s" "$1"\n' "
    s|^hostlist .*|hostlist @allhosts|; s|^slots .*|slots 4|; s|^pe_list .*|pe_list spread spread_each|
    s|^shell .*|shell /bin/sh|; s|^rerun .*|rerun TRUE|
    s|^load_thresholds .*|load_thresholds NONE|; s|^notify .*|notify 00:00:01|" >"$conf/editor"
  chmod 755 "$conf/editor"
  as_manager env EDITOR="$conf/editor" qconf -aq all.q
}
daemon() { sge "$1" sge_execd; }
all_idle() { [ "$(sge ctl qstat -f | awk '$1 ~ /^all.q@/ && NF == 5' | wc -l)" = "$N" ]; }
how_they_are() { sge ctl qstat -f; }
