"""Loans of a run from this machine: network namespaces, tmpfs mounts, cgroups, a folder of /tmp.

Everything carries the run's mark, "starling-PID-STARTED" (STARTED: when that process began, in the
kernel's count). So a later run recognizes what a killed one left behind, and removes it.
"""

import ctypes
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time

NETNS = pathlib.Path("/run/netns")
CLONE_NEWNET = 0x40000000
MARK = re.compile(r"starling-(\d+)-(\d+)")
SWITCH_FOLDER = "-switch-"  # after a mark and a number, in the folder for temporary files
ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_libc = ctypes.CDLL(None, use_errno=True)


class LabError(Exception):
    """Something that the machine does not allow or cannot do, in words for the user."""


def started_at(pid):
    """When a process began, in the kernel's ticks; None if there is none."""
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return text.rpartition(")")[2].split()[19]


def die_with_parent():
    """Makes this process get SIGTERM when the one that started it is gone."""
    pr_set_pdeathsig = 1
    _libc.prctl(pr_set_pdeathsig, signal.SIGTERM, 0, 0, 0)


def take_signals():
    """Signals that end a program become an exception, so that everything is given back."""
    def stop(number, _):
        raise SystemExit(128 + number)
    for number in ENDING_SIGNALS:
        signal.signal(number, stop)


def ignore_signals():
    """Ignores the signals that take_signals takes."""
    for number in ENDING_SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def cpu_seconds(pid):
    """Processor time that a process has used; None if there is none."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def end(process, patience):
    """Asks a child to end, and kills it if it has not ended after so many seconds."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def ip(*lines):
    """Runs lines of `ip -batch`."""
    done = subprocess.run(["ip", "-batch", "-"], input="\n".join(lines) + "\n", text=True,
                          capture_output=True)
    if done.returncode != 0:
        raise LabError(f"ip failed: {done.stderr.strip()}")


def missing():
    """Why network namespaces are not available here; None if they are."""
    if os.geteuid() != 0:
        return "network namespaces need root: run this with sudo"
    if not os.path.exists("/dev/net/tun"):
        return "there is no /dev/net/tun: load the kernel's module tun"
    for command in ("ip", "setpriv"):
        if shutil.which(command) is None:
            return f"there is no command {command} (Debian packages iproute2 and util-linux)"
    name = f"starling-{os.getpid()}-{started_at(os.getpid())}-probe"
    done = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True)
    if done.returncode != 0:
        return f"network namespaces are not permitted here: {done.stderr.strip()}"
    subprocess.run(["ip", "netns", "delete", name], check=False)
    return None


class inside:
    """A with-block whose sockets and processes belong to a namespace. Main thread only. None: the
    namespace of this process."""

    def __init__(self, namespace):
        self.namespace = namespace

    def __enter__(self):
        if self.namespace is None:
            return
        self.home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        try:
            there = os.open(NETNS / self.namespace, os.O_RDONLY)
            try:
                self._enter(there)
            finally:
                os.close(there)
        except BaseException:
            os.close(self.home)
            raise

    def __exit__(self, *_):
        if self.namespace is None:
            return
        try:
            self._enter(self.home)
        finally:
            os.close(self.home)

    @staticmethod
    def _enter(descriptor):
        if _libc.setns(descriptor, CLONE_NEWNET) != 0:
            raise LabError(f"cannot enter a network namespace: {os.strerror(ctypes.get_errno())}")


def _tmpfs_mounts():
    """(source, path) of tmpfs mounts that carry a mark."""
    found = []
    for line in pathlib.Path("/proc/mounts").read_text().splitlines():
        source, path, kind = line.split()[:3]
        if kind == "tmpfs" and MARK.match(source):
            found.append((source, path.encode().decode("unicode_escape")))
    return found


def cgroup_folder():
    """The place where processor time can be limited: (folder, "v1" or "v2"), or None."""
    v2 = pathlib.Path("/sys/fs/cgroup")
    try:
        if "cpu" in (v2 / "cgroup.subtree_control").read_text().split():
            return v2, "v2"
    except OSError:
        pass
    for v1 in (v2 / "cpu", v2 / "cpu,cpuacct"):
        if (v1 / "cpu.cfs_quota_us").exists() or (v1 / "cgroup.procs").exists():
            if os.access(v1, os.W_OK):
                return v1, "v1"
    return None


def _kill_all(pids):
    for pid in pids:
        try:
            os.kill(int(pid), signal.SIGKILL)
        except (OSError, ValueError):
            pass


def remove_marked(of):
    """Removes everything with a mark for which of(mark) holds; returns the removed names."""
    removed = []
    for path in sorted(NETNS.glob("starling-*")) if NETNS.exists() else []:
        mark = MARK.match(path.name)
        if not mark or not of(mark.group(0)):
            continue
        inside_it = subprocess.run(["ip", "netns", "pids", path.name], capture_output=True,
                                   text=True).stdout.split()
        _kill_all(inside_it)
        subprocess.run(["ip", "netns", "delete", path.name], check=False, capture_output=True)
        removed.append(f"namespace {path.name}")
    for source, path in _tmpfs_mounts():
        if of(MARK.match(source).group(0)):
            subprocess.run(["umount", "-l", path], check=False, capture_output=True)
            removed.append(f"tmpfs {path}")
    place = cgroup_folder()
    for group in sorted(place[0].glob("starling-*")) if place else []:
        mark = MARK.match(group.name)
        if mark and of(mark.group(0)):
            _remove_cgroup(group)
            removed.append(f"cgroup {group.name}")
    for folder in switch_folders():
        if of(MARK.match(folder.name).group(0)):
            shutil.rmtree(folder, ignore_errors=True)
            removed.append(f"folder {folder}")
    return removed


def switch_folders():
    """The folders of all runs."""
    found = pathlib.Path(tempfile.gettempdir()).glob(f"starling-*{SWITCH_FOLDER}*")
    return [folder for folder in found if MARK.match(folder.name)]


def _remove_cgroup(group):
    for _ in range(100):
        try:
            pids = (group / "cgroup.procs").read_text().split()
            _kill_all(pids)
            group.rmdir()
            return
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.02)


def is_stale(mark):
    """Whether the run that left this mark is gone."""
    pid, started = MARK.match(mark).groups()
    return started_at(pid) != started


class Borrowed:
    """Everything that this process borrows; `give_back` removes it all, even after half a start."""

    def __init__(self):
        self.mark = f"starling-{os.getpid()}-{started_at(os.getpid())}"

    def namespaces(self, count, label=""):
        names = [f"{self.mark}-{label}{i}" for i in range(count)]
        ip(*(f"netns add {name}" for name in names))
        return names

    def tmpfs(self, path, megabytes):
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=755",
                               self.mark, str(path)], capture_output=True, text=True)
        if done.returncode != 0:
            raise LabError(f"mount failed: {done.stderr.strip()}")

    def unmount(self, path):
        subprocess.run(["umount", "-l", str(path)], check=False, capture_output=True)

    def give_back(self):
        remove_marked(lambda mark: mark == self.mark)


class Throttle:
    """Limits a process to a share of one processor: by a cgroup, or, if none can be written,
    by stopping it during a part of each 50 ms (call `tick` often)."""

    PERIOD = 0.05

    def __init__(self, borrowed, label, pid, share):
        self.pid, self.share = pid, max(0.01, share)
        self.group = None
        self.stopped = False
        place = cgroup_folder()
        if place is None:
            return
        folder, version = place
        group = folder / f"{borrowed.mark}-{label}"
        period = 50_000
        quota = max(1000, int(self.share * period))
        try:
            group.mkdir(exist_ok=True)
            if version == "v2":
                (group / "cpu.max").write_text(f"{quota} {period}")
                self.no_limit = group / "cpu.max", "max"
            else:
                (group / "cpu.cfs_period_us").write_text(str(period))
                (group / "cpu.cfs_quota_us").write_text(str(quota))
                self.no_limit = group / "cpu.cfs_quota_us", "-1"
            (group / "cgroup.procs").write_text(str(pid))
            self.group = group
        except OSError:
            _remove_cgroup_if_empty(group)

    def tick(self, now):
        """Seconds until the next call is needed; None: none is needed."""
        if self.group is not None:
            return None
        phase = now % self.PERIOD
        run_for = self.share * self.PERIOD
        stop = phase >= run_for
        if stop != self.stopped:
            self.stopped = stop
            _signal(self.pid, signal.SIGSTOP if stop else signal.SIGCONT)
        return (self.PERIOD if stop else run_for) - phase + 0.0005

    def end(self):
        if self.group is None:
            _signal(self.pid, signal.SIGCONT)
            return
        # It may have to stay there: the folder above takes no processes while a controller is on.
        file, words = self.no_limit
        try:
            file.write_text(words)
            (self.group.parent / "cgroup.procs").write_text(str(self.pid))
        except OSError:
            pass  # the process is gone, or has to stay
        _remove_cgroup_if_empty(self.group)


def _remove_cgroup_if_empty(group):
    try:
        group.rmdir()
    except OSError:
        pass


def _signal(pid, number):
    try:
        os.kill(pid, number)
    except OSError:
        pass
