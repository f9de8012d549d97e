#include "dataplane/bpf/preflight.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <linux/capability.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "dataplane/bpf/attach.h"
#include "net/mtu.h"

namespace passing::dataplane {
namespace {

bool capable(unsigned capability) {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  __user_cap_data_struct data[2] = {};
  if (syscall(SYS_capget, &header, data) != 0) return false;
  return (data[capability / 32].effective >> (capability % 32) & 1) != 0;
}

// Asks the kernel about an interface.
class Device {
 public:
  explicit Device(const std::string& name) : socket_(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    std::strncpy(request_.ifr_name, name.c_str(), IFNAMSIZ - 1);
  }
  ~Device() { ::close(socket_); }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  int mtu() { return ioctl(socket_, SIOCGIFMTU, &request_) == 0 ? request_.ifr_mtu : 0; }
  bool up() { return ioctl(socket_, SIOCGIFFLAGS, &request_) == 0 && (request_.ifr_flags & IFF_UP) != 0; }

  std::string driver() {
    ethtool_drvinfo info{};
    info.cmd = ETHTOOL_GDRVINFO;
    return ethtool(&info) ? info.driver : "";
  }

  // Whether a feature is on, by the name that `ethtool -k` has for it.
  bool feature(const std::string& name) {
    std::vector<char> sizes(sizeof(ethtool_sset_info) + sizeof(__u32));
    auto* sets = reinterpret_cast<ethtool_sset_info*>(sizes.data());
    sets->cmd = ETHTOOL_GSSET_INFO;
    sets->sset_mask = 1ULL << ETH_SS_FEATURES;
    if (!ethtool(sets) || sets->data[0] == 0) return false;
    const __u32 number = sets->data[0];
    std::vector<char> names(sizeof(ethtool_gstrings) + std::size_t{number} * ETH_GSTRING_LEN);
    auto* strings = reinterpret_cast<ethtool_gstrings*>(names.data());
    strings->cmd = ETHTOOL_GSTRINGS;
    strings->string_set = ETH_SS_FEATURES;
    strings->len = number;
    const std::size_t blocks = (number + 31) / 32;
    std::vector<char> values(sizeof(ethtool_gfeatures) + blocks * sizeof(ethtool_get_features_block));
    auto* features = reinterpret_cast<ethtool_gfeatures*>(values.data());
    features->cmd = ETHTOOL_GFEATURES;
    features->size = static_cast<__u32>(blocks);
    if (!ethtool(strings) || !ethtool(features)) return false;
    for (std::size_t i = 0; i < number; ++i) {
      if (name != reinterpret_cast<const char*>(strings->data) + i * ETH_GSTRING_LEN) continue;
      return (features->features[i / 32].active >> (i % 32) & 1) != 0;
    }
    return false;
  }

 private:
  bool ethtool(void* command) {
    request_.ifr_data = static_cast<char*>(command);
    return ioctl(socket_, SIOCETHTOOL, &request_) == 0;
  }

  int socket_;
  ifreq request_{};
};

void look_at_kernel(Hook hook, std::vector<Finding>& findings) {
  const auto program = hook == Hook::xdp ? BPF_PROG_TYPE_XDP : BPF_PROG_TYPE_SCHED_CLS;
  if (libbpf_probe_bpf_prog_type(program, nullptr) != 1) {
    findings.push_back({true, fmt::format("the kernel takes no {} programs", to_string(hook)),
                        "use a kernel since 5.15 with CONFIG_BPF_SYSCALL and CONFIG_NET_CLS_BPF"});
  }
  std::vector<std::pair<bpf_map_type, const char*>> maps = {{BPF_MAP_TYPE_ARRAY_OF_MAPS, "maps in maps"}};
  if (hook == Hook::xdp) maps.emplace_back(BPF_MAP_TYPE_DEVMAP, "maps of devices");
  for (const auto& [type, name] : maps) {
    if (libbpf_probe_bpf_map_type(type, nullptr) != 1)
      findings.push_back({true, fmt::format("the kernel has no {}", name), "use a kernel since 5.15"});
  }
  std::ifstream jit("/proc/sys/net/core/bpf_jit_enable");
  if (int on = 1; jit >> on && on == 0) {
    findings.push_back({false, "programs are interpreted, which is many times slower",
                        "sysctl -w net.core.bpf_jit_enable=1"});
  }
}

void look_at(const std::string& name, Hook hook, int mtu, std::vector<Finding>& findings) {
  const unsigned index = if_nametoindex(name.c_str());
  if (index == 0) {
    findings.push_back({true, fmt::format("there is no interface '{}'", name), "ip -brief link"});
    return;
  }
  const int held = claim({name, index});
  if (held < 0) {
    findings.push_back(
        {true, fmt::format("another passing switch runs on {}", name), "end it, or choose other interfaces"});
  } else {
    ::close(held);
  }
  Device device(name);
  if (!device.up()) {
    findings.push_back({true, fmt::format("{} is down", name), fmt::format("ip link set dev {} up", name)});
  }
  if (device.mtu() < mtu) {
    findings.push_back({true, fmt::format("{} has MTU {}, and packets need {}", name, device.mtu(), mtu),
                        fmt::format("ip link set dev {} mtu {}, or a smaller --mtu", name, mtu)});
  }
  if (hook == Hook::xdp) {
    if (device.mtu() > net::kLargestXdpMtu) {
      findings.push_back(
          {true,
           fmt::format("{} has MTU {}; XDP takes frames of one buffer, {} at most", name, device.mtu(),
                       net::kLargestXdpMtu),
           fmt::format("ip link set dev {} mtu {}, or --dataplane tc", name, net::kLargestXdpMtu)});
    }
    __u32 other = 0;
    if (held >= 0 && bpf_xdp_query_id(static_cast<int>(index), 0, &other) == 0 && other != 0) {
      findings.push_back({true, fmt::format("{} has another XDP program, number {}", name, other),
                          fmt::format("ip link set dev {} xdp off; if that does not help, end the process "
                                      "that holds it (bpftool link)",
                                      name)});
    }
    return;
  }
  // What the entrance of the stack sees must be single packets.
  for (const char* feature : {"rx-gro-list", "rx-udp-gro-forwarding"}) {
    if (!device.feature(feature)) continue;
    findings.push_back({true, fmt::format("{} merges UDP packets before tc sees them", name),
                        fmt::format("ethtool -K {} {} off", name, feature)});
  }
}

// The other end of a veth: XDP hands frames only to one that polls, and tc takes single packets only.
void look_at_peer(const std::string& name, Hook hook, std::vector<Finding>& findings) {
  const auto index_of = [](const std::string& of, const char* what) {
    std::ifstream file(fmt::format("/sys/class/net/{}/{}", of, what));
    unsigned index = 0;
    file >> index;
    return index;
  };
  char peer[IFNAMSIZ] = "";
  // Numbers are those of a namespace, maybe of another one: what is found here is likely, not certain, and
  // only noted.
  const bool here = if_indextoname(index_of(name, "iflink"), peer) != nullptr && name != peer &&
                    index_of(peer, "iflink") == if_nametoindex(name.c_str());
  const bool xdp = hook == Hook::xdp;
  const char* feature = xdp ? "rx-gro" : "tx-udp-segmentation";
  if (here && Device(peer).feature(feature) == xdp) return;
  const std::string end = here ? peer : "the other end";
  findings.push_back(
      {false,
       fmt::format("{}, the peer of the veth {}, must {}", end, name,
                   xdp ? "have GRO on, or results vanish" : "cut trains of packets, or they are dropped"),
       fmt::format("{}ethtool -K {} {}", here ? "" : "there, unless it is so: ", here ? peer : "DEVICE",
                   xdp ? "gro on" : "tx-udp-segmentation off")});
}

void look_at_address(const net::SocketAddress& listen, std::vector<Finding>& findings) {
  const int socket = ::socket(listen.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (::bind(socket, listen.get(), listen.length) != 0) {
    findings.push_back({true,
                        fmt::format("cannot listen on {}: {}", net::to_string(listen), std::strerror(errno)),
                        errno == EADDRINUSE ? "another --listen"
                                            : "ip addr add ADDRESS/PREFIX dev DEVICE, or another --listen"});
  }
  ::close(socket);
}

}  // namespace

std::vector<Finding> preflight(const BpfDataplane::Options& options, int mtu) {
  std::vector<Finding> findings;
  const bool privileged =
      capable(CAP_SYS_ADMIN) || (capable(CAP_BPF) && capable(CAP_PERFMON) && capable(CAP_NET_ADMIN));
  if (!privileged) {
    findings.push_back(
        {true, "loading programs needs CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN",
         "run as root, or: setcap cap_bpf,cap_net_admin,cap_perfmon+ep $(command -v passing)"});
  } else {
    look_at_kernel(options.hook, findings);
  }
  for (const std::string& name : options.interfaces) {
    look_at(name, options.hook, mtu, findings);
    if (Device(name).driver() == "veth") look_at_peer(name, options.hook, findings);
  }
  look_at_address(options.listen, findings);
  return findings;
}

}  // namespace passing::dataplane
