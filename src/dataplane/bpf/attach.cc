#include "dataplane/bpf/attach.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/if_link.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstring>

namespace passing::dataplane {
namespace {

// Ours among the filters of an interface. Nobody else is likely to choose these.
constexpr unsigned kHandle = 0x5053;
constexpr unsigned kPriority = 0x5053;
constexpr const char* kProgram = "passing_tc";

bpf_tc_hook hook_of(const Interface& interface) {
  bpf_tc_hook hook{};
  hook.sz = sizeof hook;
  hook.ifindex = static_cast<int>(interface.index);
  hook.attach_point = BPF_TC_INGRESS;
  return hook;
}

bpf_tc_opts filter_options() {
  bpf_tc_opts options{};
  options.sz = sizeof options;
  options.handle = kHandle;
  options.priority = kPriority;
  return options;
}

// The number of the program in our place among the filters; 0: there is none.
unsigned present(const Interface& interface) {
  const bpf_tc_hook hook = hook_of(interface);
  bpf_tc_opts options = filter_options();
  return bpf_tc_query(&hook, &options) == 0 ? options.prog_id : 0;
}

std::string name_of_program(unsigned number) {
  const int descriptor = bpf_prog_get_fd_by_id(number);
  if (descriptor < 0) return "";
  bpf_prog_info info{};
  __u32 size = sizeof info;
  const int status = bpf_obj_get_info_by_fd(descriptor, &info, &size);
  ::close(descriptor);
  return status == 0 ? info.name : "";
}

}  // namespace

int claim(const Interface& interface) {
  const int descriptor = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  // The first byte stays 0: a name without a file.
  const std::string text = fmt::format("passing-switch-{}", interface.index);
  std::copy(text.begin(), text.end(), name.sun_path + 1);
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  if (::bind(descriptor, reinterpret_cast<const sockaddr*>(&name), length) == 0) return descriptor;
  ::close(descriptor);
  return -1;
}

Expected<std::unique_ptr<Attachment>> Attachment::make(Hook hook, int program,
                                                       const std::vector<Interface>& interfaces) {
  std::unique_ptr<Attachment> attachment(new Attachment);
  for (const Interface& interface : interfaces) {
    auto attached = hook == Hook::xdp ? attachment->attach_xdp(program, interface)
                                      : attachment->attach_tc(program, interface);
    if (!attached) return tl::unexpected(attached.error());
  }
  if (!attachment->filters_.empty()) {
    if (auto started = attachment->start_keeper(); !started) return tl::unexpected(started.error());
  }
  return attachment;
}

Attachment::~Attachment() {
  for (const int link : links_) ::close(link);
  for (const Filter& filter : filters_) remove(filter);
  if (keeper_ < 0) return;
  // A byte says that nothing is left to do.
  const char done = 1;
  static_cast<void>(!::write(keeper_pipe_, &done, 1));
  ::close(keeper_pipe_);
  while (waitpid(keeper_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

Expected<void> Attachment::attach_xdp(int program, const Interface& interface) {
  bpf_link_create_opts options{};
  options.sz = sizeof options;
  options.flags = XDP_FLAGS_DRV_MODE;
  int link = bpf_link_create(program, static_cast<int>(interface.index), BPF_XDP, &options);
  if (link == -EOPNOTSUPP || link == -EINVAL) {
    options.flags = XDP_FLAGS_SKB_MODE;
    link = bpf_link_create(program, static_cast<int>(interface.index), BPF_XDP, &options);
    if (link >= 0) {
      warnings_.push_back(fmt::format(
          "the driver of {} has no XDP: it runs in the generic mode, which is slower than --dataplane tc",
          interface.name));
    }
  }
  if (link < 0) {
    const char* remedy = link == -EBUSY || link == -EEXIST
                             ? "another XDP program is there; `ip link set dev {0} xdp off` removes it"
                         : link == -ERANGE ? "its MTU is too large; `ip link set dev {0} mtu 3500`, also at "
                                             "the other end of a veth"
                         : link == -EPERM  ? "run as root, or give CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN"
                                           : "see dmesg; --dataplane tc works on every interface";
    return fail(ErrorCode::invalid_argument,
                fmt::format("cannot attach XDP to {}: {}: {}", interface.name, std::strerror(-link),
                            fmt::format(fmt::runtime(remedy), interface.name)));
  }
  links_.push_back(link);
  return {};
}

Expected<void> Attachment::attach_tc(int program, const Interface& interface) {
  const auto refuse = [&](int status, const std::string& remedy) {
    return fail(ErrorCode::invalid_argument, fmt::format("cannot attach to tc of {}: {}: {}", interface.name,
                                                         std::strerror(-status), remedy));
  };
  bpf_tc_hook hook = hook_of(interface);
  Filter filter{.interface = interface};
  const int made = bpf_tc_hook_create(&hook);
  if (made != 0 && made != -EEXIST) {
    return refuse(made, made == -EPERM ? "run as root, or give CAP_NET_ADMIN"
                                       : "the kernel needs CONFIG_NET_SCH_INGRESS and CONFIG_NET_CLS_BPF");
  }
  bpf_tc_opts options = filter_options();
  options.prog_fd = program;
  if (const unsigned old = present(interface); old != 0) {
    if (name_of_program(old) != kProgram) {
      return refuse(-EEXIST, fmt::format("another filter is in our place; `tc filter del dev {} ingress "
                                         "pref {}` removes it",
                                         interface.name, kPriority));
    }
    options.flags = BPF_TC_F_REPLACE;  // of a switch that was killed together with its keeper
  }
  const int attached = bpf_tc_attach(&hook, &options);
  if (attached != 0) return refuse(attached, "the kernel needs CONFIG_NET_CLS_BPF");
  filter.program = options.prog_id != 0 ? options.prog_id : present(interface);
  filters_.push_back(filter);
  return {};
}

// Only what is ours: another switch may have taken the place. The clsact qdisc stays: others may use it by
// now.
void Attachment::remove(const Filter& filter) {
  const bpf_tc_hook hook = hook_of(filter.interface);
  if (const unsigned now = present(filter.interface); now == 0 || now != filter.program) return;
  bpf_tc_opts options = filter_options();
  bpf_tc_detach(&hook, &options);
}

// A filter of tc belongs to its interface and outlives us. The keeper sees the end of our pipe, however we
// end.
Expected<void> Attachment::start_keeper() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return fail(ErrorCode::no_capacity, fmt::format("cannot open a pipe: {}", std::strerror(errno)));
  const pid_t child = fork();
  if (child < 0) {
    ::close(ends[0]);
    ::close(ends[1]);
    return fail(ErrorCode::no_capacity, fmt::format("cannot start a process: {}", std::strerror(errno)));
  }
  if (child == 0) {
    setsid();  // not in the group that a terminal or a launcher kills
    prctl(PR_SET_NAME, "passing-keeper");
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, nullptr);
    const int pipe = dup2(ends[0], 3);
    close_range(4, ~0U, 0);  // programs, maps, sockets: nothing of the switch lives on in here
    char done = 0;
    ssize_t got = 0;
    while ((got = ::read(pipe, &done, 1)) < 0 && errno == EINTR) {
    }
    if (got == 0) {
      for (const Filter& filter : filters_) remove(filter);
    }
    _exit(0);
  }
  ::close(ends[0]);
  keeper_ = child;
  keeper_pipe_ = ends[1];
  return {};
}

}  // namespace passing::dataplane
