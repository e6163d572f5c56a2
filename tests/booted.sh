#!/bin/bash
# A booted systemd for the tests: Debian's own, as process 1 of its own namespaces, over a copy of
# this machine's file system that is thrown away at the end.
#
#     booted.sh DIRECTORY CHECKOUT        as root; booted.py starts it
#
# IOSTATS_DEBIAN_TREE: the root of another Debian release instead of this machine's file system.
# It says "up PID" (process 1, by its number outside) and stays until the end of its input.  Nothing
# is written outside of DIRECTORY: / is the lower layer of an overlay, and the kernel's settings
# (/proc/sys, /sys) are read-only inside.  /sys/kernel/debug is empty there, and so is /sys/fs/lustre.
set -eu
top=$1 checkout=$2
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C

if [ "${3:-}" != inside ]; then
  # The mounts below are in a namespace of their own, and go with it.
  mount --make-rprivate / 2>/dev/null || nsenter --mount=/proc/self/ns/mnt mount --make-rprivate /
  # Mounts of other tests, whose ends would wait for this copy.
  umount --all --lazy --types fuse.simlustre 2>/dev/null || :
  mount -t tmpfs -o mode=755 tmpfs "$top"
  mkdir "$top/cgroup"
  mount -t cgroup2 cgroup2 "$top/cgroup"
  group=$top/cgroup/iostats-tests-$$
  mkdir "$group"
  end() {
    trap - EXIT TERM INT HUP
    kill -KILL "$child" 2>/dev/null || :
    wait "$child" 2>/dev/null || :
    for i in $(seq 500); do                         # until its processes have gone
      find "$group" -depth -type d -exec rmdir {} + 2>/dev/null || :
      [ -d "$group" ] || break
      sleep 0.02
    done
  }
  sh -c 'echo $$ >"$0/cgroup.procs"; shift; exec unshare --mount --propagation private --pid --uts \
    --ipc --net --cgroup --fork --kill-child bash "$@"' "$group" x "$0" "$top" "$checkout" inside \
    </dev/null &
  child=$!
  trap end EXIT
  trap 'exit 1' TERM INT HUP
  pid=
  until [ -n "$pid" ]; do
    sleep 0.02
    kill -0 "$child" 2>/dev/null || exit 1
    pid=$(pgrep -P "$child" || :)
  done
  echo "up $pid"
  cat >/dev/null
  exit 0
fi

root=$top/root
mkdir "$top/upper" "$top/work" "$root" "$top/debugfs"
mount -t overlay -o "lowerdir=${IOSTATS_DEBIAN_TREE:-/},upperdir=$top/upper,workdir=$top/work" overlay "$root"
mount -t proc proc "$root/proc"
mount --bind "$root/proc/sys" "$root/proc/sys"
mount -o remount,bind,ro "$root/proc/sys"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t tmpfs -o mode=755 tmpfs "$root/sys/fs"
mkdir "$root/sys/fs/cgroup" "$root/sys/fs/lustre"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
chmod 700 "$top/debugfs"
mount --bind "$top/debugfs" "$root/sys/kernel/debug"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for name in null zero full random urandom tty; do
  : >"$root/dev/$name"
  mount --bind "/dev/$name" "$root/dev/$name"
done
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=666,mode=620 devpts "$root/dev/pts"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
# Not by the overlay alone: the checkout may be a mount of its own.  `make install-...` writes
# nothing there.
mkdir -p "$root$checkout"
mount --bind -o ro "$checkout" "$root$checkout"
mount -o remount,bind,ro "$root$checkout"

# A machine of which nothing runs but what the tests start.
rm -rf "$root"/etc/systemd/system "$root"/var/log/journal "$root"/etc/iostats \
  "$root"/var/lib/iostats* "$root"/usr/local/lib/iostats
mkdir -p "$root/etc/systemd/system" "$root/var/log/journal"
ln -s /lib/systemd/system/basic.target "$root/etc/systemd/system/default.target"
for unit in systemd-sysctl systemd-modules-load systemd-remount-fs systemd-udevd systemd-firstboot \
  systemd-udev-trigger systemd-update-utmp systemd-machine-id-commit systemd-tmpfiles-setup-dev \
  systemd-random-seed systemd-pstore; do
  ln -s /dev/null "$root/etc/systemd/system/$unit.service"
done
for unit in dev-hugepages.mount sys-kernel-tracing.mount sys-fs-fuse-connections.mount \
  sys-kernel-config.mount dev-mqueue.mount sys-kernel-debug.mount; do
  ln -s /dev/null "$root/etc/systemd/system/$unit"
done
head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n' >"$root/etc/machine-id"
rm -f "$root/etc/hosts" "$root/etc/resolv.conf"
echo "127.0.0.1 localhost mgmt1" >"$root/etc/hosts"
echo mgmt1 >"$root/etc/hostname"
hostname mgmt1
ip link set lo up 2>/dev/null || :
cd "$root"
mkdir -p old
pivot_root . old
exec chroot . sh -c 'umount -l /old && rmdir /old
  # The clock is that of the machine outside, and of all that runs there.
  exec setpriv --bounding-set=-sys_time env -i container=tests PATH=/usr/sbin:/usr/bin:/sbin:/bin SYSTEMD_LOG_TARGET=console \
    /lib/systemd/systemd --show-status=no'
