#include "io/router/sandbox.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <tuple>
#include <vector>

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace starling::io::router {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;  // sanitizers need extra memory
#else
constexpr bool kSanitized = false;
#endif

#if defined(__x86_64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
constexpr std::uint32_t kArchitecture = 0;  // without a filter of system calls
#endif

constexpr rlim_t kMemoryMax = 128UL << 20;
constexpr rlim_t kProcessorSecondsMax = 60;  // of its whole life; then a new process is started
constexpr rlim_t kDescriptorsMax = 32;
constexpr rlim_t kFileMax = 1UL << 20;  // of an output that is a file

/// Numbers of calls that reach files, programs and processes. Those that an architecture lacks are
/// left out.
constexpr auto kForbidden = std::to_array<std::uint32_t>({
#ifdef SYS_open
    SYS_open,
    SYS_creat,
    SYS_fork,
    SYS_vfork,
    SYS_unlink,
    SYS_rename,
    SYS_link,
    SYS_symlink,
    SYS_mkdir,
    SYS_rmdir,
    SYS_chmod,
    SYS_chown,
#endif
    SYS_openat,
    SYS_openat2,
    SYS_open_by_handle_at,
    SYS_execve,
    SYS_execveat,
    SYS_clone,
    SYS_clone3,
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_pidfd_getfd,
    SYS_kill,
    SYS_tkill,
    SYS_tgkill,
    SYS_rt_sigqueueinfo,
    SYS_pidfd_send_signal,
    SYS_unlinkat,
    SYS_renameat2,
    SYS_linkat,
    SYS_symlinkat,
    SYS_mkdirat,
    SYS_fchmodat,
    SYS_fchownat,
    SYS_truncate,
    SYS_mount,
    SYS_bpf,
    SYS_userfaultfd,
    SYS_perf_event_open,
    SYS_keyctl,
    SYS_add_key,
    SYS_unshare,
    SYS_setns,
    SYS_io_uring_setup,
    SYS_memfd_create,
});

base::Status refused(const char* what) {
  return base::fail(base::ErrorCode::internal, "{}: {}", what, std::strerror(errno));
}

base::Status limit(int resource, rlim_t most, const char* what) {
  const rlimit limit{most, most};
  if (setrlimit(static_cast<__rlimit_resource_t>(resource), &limit) != 0) return refused(what);
  return {};
}

base::Status filter_calls() {
  if (kArchitecture == 0) return {};
  const auto load = [](std::size_t at) {
    return sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(at));
  };
  const auto answer = [](std::uint32_t value) {
    return sock_filter BPF_STMT(BPF_RET | BPF_K, value);
  };
  constexpr std::uint32_t kRefuse = SECCOMP_RET_ERRNO | EACCES;
  std::vector<sock_filter> program{
      load(offsetof(seccomp_data, arch)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 1, 0),
      answer(SECCOMP_RET_KILL_PROCESS),
      load(offsetof(seccomp_data, nr)),
      // Another numbering (x32), which the list does not have.
      BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000U, 0, 1),
      answer(kRefuse),
  };
  for (const std::uint32_t number : kForbidden) {
    program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1));
    program.push_back(answer(kRefuse));
  }
  // UNIX sockets lead to the machine's other programs.
  program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 3));
  program.push_back(load(offsetof(seccomp_data, args)));  // its lower half: both are little-endian
  program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_UNIX, 0, 1));
  program.push_back(answer(kRefuse));
  program.push_back(answer(SECCOMP_RET_ALLOW));
  const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) return refused("seccomp");
  return {};
}

}  // namespace

base::Status enter_sandbox() {
  const pid_t parent = getppid();
  if (prctl(PR_SET_PDEATHSIG, SIGTERM) != 0) return refused("PR_SET_PDEATHSIG");
  if (getppid() != parent) return base::fail(base::ErrorCode::internal, "the peer is gone");
  if (syscall(SYS_close_range, STDERR_FILENO + 1, ~0U, 0) != 0) return refused("close_range");
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return refused("PR_SET_NO_NEW_PRIVS");
  if (prctl(PR_SET_DUMPABLE, 0) != 0) return refused("PR_SET_DUMPABLE");
  if (!kSanitized) {
    if (auto done = limit(RLIMIT_DATA, kMemoryMax, "limit of memory"); !done) return done;
  }
  for (const auto& [resource, most, what] :
       {std::tuple{RLIMIT_CPU, kProcessorSecondsMax, "limit of processor time"},
        std::tuple{RLIMIT_NOFILE, kDescriptorsMax, "limit of descriptors"},
        std::tuple{RLIMIT_FSIZE, kFileMax, "limit of file sizes"},
        std::tuple{RLIMIT_CORE, rlim_t{0}, "limit of core files"}}) {
    if (auto done = limit(resource, most, what); !done) return done;
  }
  return filter_calls();
}

}  // namespace starling::io::router
