// `passing switch`: a dataplane, in userspace or in the kernel, with its controller.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <set>
#include <thread>

#include "cli/commands.h"
#include "controller/server.h"
#include "dataplane/userspace/userspace.h"
#ifdef PASSING_HAS_BPF
#include "dataplane/bpf/preflight.h"
#endif
#include "net/mtu.h"

namespace passing::cli {
namespace {

constexpr unsigned kMostDefaultThreads = 4;

struct Options {
  std::string listen = "0.0.0.0:9000";
  std::string http = "0.0.0.0:9001";
  std::string dataplane = "userspace";
  std::vector<std::string> interfaces;
  std::uint32_t slots = 0;
  unsigned threads = 0;
  int mtu = 0;
  double lease = 10;
  bool no_segmentation = false;
  bool echo = false;
  bool preflight = false;
  bool profile = false;
};

// As many slots as fit this; both versions count. Keeps the whole process below 64 MB.
constexpr std::size_t kDefaultSlotBytes = 32U << 20;

int complain(const std::string& sentence) {
  fmt::print(stderr, "passing switch: {}\n", sentence);
  return kBadInput;
}

std::uint32_t default_slots(std::uint16_t elements) {
  const std::size_t fit = kDefaultSlotBytes / (2 * (4 * std::size_t{elements} + 64));
  return static_cast<std::uint32_t>(std::min<std::size_t>(fit / 256 * 256, 1U << 20));
}

// What a dataplane is started with, whichever it is.
struct Setting {
  net::SocketAddress listen;
  int mtu = 0;
  unsigned threads = 1;
  dataplane::Capabilities capabilities;
};

/// A dataplane that runs.
struct Started {
  std::unique_ptr<dataplane::Dataplane> dataplane;
  bool segmentation = false;
  std::vector<std::string> warnings;
  std::string description;
};

Expected<Started> start_userspace(const Options& options, const Setting& setting) {
  auto started = dataplane::UserspaceDataplane::start({.listen = setting.listen,
                                                       .threads = setting.threads,
                                                       .capabilities = setting.capabilities,
                                                       .segmentation = !options.no_segmentation,
                                                       .echo = options.echo});
  if (!started) return fail(started.error().code, "--listen: " + started.error().message);
  Started result{.dataplane = nullptr,
                 .segmentation = (*started)->segmentation(),
                 .warnings = (*started)->warnings(),
                 .description = fmt::format(
                     "{} thread{}, {}", setting.threads, setting.threads == 1 ? "" : "s",
                     (*started)->segmentation() ? "segmentation offload" : "no segmentation offload")};
  result.dataplane = std::move(*started);
  return result;
}

#ifdef PASSING_HAS_BPF

dataplane::BpfDataplane::Options kernel_options(const Options& options, const Setting& setting) {
  return {.hook = options.dataplane == "xdp" ? dataplane::Hook::xdp : dataplane::Hook::tc,
          .listen = setting.listen,
          .ports = setting.threads,
          .interfaces = options.interfaces,
          .capabilities = setting.capabilities,
          .profile = options.profile};
}

// Prints what was found; false if something must be mended first.
bool pass_preflight(const Options& options, const Setting& setting) {
  bool good = true;
  for (const auto& each : dataplane::preflight(kernel_options(options, setting), setting.mtu)) {
    // A lab has seen to what is only noted.
    if (each.fatal || options.preflight || std::getenv("PASSING_LAB") == nullptr)
      fmt::print(stderr, "passing switch: {}{}\n  {}\n", each.fatal ? "" : "note: ", each.what, each.remedy);
    good = good && !each.fatal;
  }
  return good;
}

Expected<Started> start_kernel(const Options& options, const Setting& setting) {
  auto started = dataplane::BpfDataplane::start(kernel_options(options, setting));
  if (!started) return tl::unexpected(started.error());
  Started result{
      .dataplane = nullptr,
      .segmentation = false,
      .warnings = (*started)->warnings(),
      .description = fmt::format("in the kernel at {} of {}; {} instructions verified", options.dataplane,
                                 fmt::join(options.interfaces, ", "), (*started)->verified_instructions())};
  result.dataplane = std::move(*started);
  return result;
}

#else

bool pass_preflight(const Options&, const Setting&) {
  fmt::print(
      stderr,
      "passing switch: this build has no switch in the kernel: install clang, llvm, bpftool and libbpf-dev "
      "(tools/install-deps), and build again\n");
  return false;
}
Expected<Started> start_kernel(const Options&, const Setting&) {
  return fail(ErrorCode::invalid_argument, "this build has no switch in the kernel");
}

#endif

bool wildcard(const net::SocketAddress& address) {
  const auto ip = net::to_protocol(address).ip;
  return std::all_of(ip.begin() + (address.family() == AF_INET ? 12 : 0), ip.end(),
                     [](std::uint8_t byte) { return byte == 0; });
}

// The MTU of all paths to members. For a switch in the kernel, the smallest of its ports.
Expected<int> choose_mtu(const Options& options, const net::SocketAddress& listen) {
  const bool xdp = options.dataplane == "xdp";
  const int most = xdp ? net::kLargestXdpMtu : net::kLargestMtu;
  if (options.mtu != 0) {
    if (options.mtu >= net::kSmallestMtu && options.mtu <= most) return options.mtu;
    return fail(ErrorCode::invalid_argument, fmt::format("--mtu is {}: must be {} to {}{}", options.mtu,
                                                         net::kSmallestMtu, most, xdp ? " with XDP" : ""));
  }
  auto found =
      options.interfaces.empty() ? net::interface_mtu(listen) : net::interface_mtu(options.interfaces);
  if (!found) return found;
  if (*found < net::kSmallestMtu) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("the interface has MTU {}: must be at least {}", *found, net::kSmallestMtu));
  }
  return std::min(*found, most);
}

Expected<Setting> settle(const Options& options) {
  const bool kernel = options.dataplane != "userspace";
  const auto listen = net::parse_address(options.listen, 9000);
  if (!listen) return fail(ErrorCode::invalid_argument, "--listen: " + listen.error().message);
  if (kernel && options.interfaces.empty()) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("--dataplane {} needs --interface: the ports where packets of members come in",
                            options.dataplane));
  }
  if (!kernel && (!options.interfaces.empty() || options.preflight || options.profile)) {
    return fail(
        ErrorCode::invalid_argument,
        "--interface, --preflight and --profile are for a switch in the kernel: add --dataplane tc or xdp");
  }
  if (std::set<std::string>(options.interfaces.begin(), options.interfaces.end()).size() <
      options.interfaces.size())
    return fail(ErrorCode::invalid_argument, "--interface names one interface twice");
  if (kernel && wildcard(*listen)) {
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("--listen is {}: a switch in the kernel needs the address that members send to, such as "
                    "10.0.0.1:9000",
                    options.listen));
  }
  if (kernel && (options.no_segmentation || options.echo)) {
    return fail(ErrorCode::invalid_argument, "--no-segmentation and --echo are for --dataplane userspace");
  }
  const auto mtu = choose_mtu(options, *listen);
  if (!mtu) return tl::unexpected(mtu.error());
  const unsigned cores = std::clamp(std::thread::hardware_concurrency(), 1U, kMostDefaultThreads);
  Setting setting{.listen = *listen,
                  .mtu = *mtu,
                  .threads = options.threads != 0 ? options.threads
                             : kernel             ? 1
                                                  : cores,
                  .capabilities = {.elements = net::elements_for_mtu(*mtu)}};
  std::uint32_t& slots = setting.capabilities.slots;
  slots = options.slots != 0 ? options.slots : default_slots(setting.capabilities.elements);
  if (kernel) return setting;
  if (slots < setting.threads) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("--slots is {}: must be at least --threads, {}", slots, setting.threads));
  }
  slots = slots / setting.threads * setting.threads;
  return setting;
}

int run(const Options& options) {
  log_to_stderr("switch");
  const auto http = net::parse_address(options.http, 9001);
  if (!http) return complain("--http: " + http.error().message);
  const auto setting = settle(options);
  if (!setting) return complain(setting.error().message);
  const bool kernel = options.dataplane != "userspace";
  if (kernel && !pass_preflight(options, *setting)) return kFailed;
  if (options.preflight) {
    fmt::print("nothing is missing for --dataplane {} on {}\n", options.dataplane,
               fmt::join(options.interfaces, ", "));
    return 0;
  }

  const int signals = ending_signals();
  auto started = kernel ? start_kernel(options, *setting) : start_userspace(options, *setting);
  if (!started) return complain(started.error().message);
  dataplane::Dataplane& dataplane = *started->dataplane;
  for (const std::string& warning : started->warnings) spdlog::warn("{}", warning);

  controller::Registry registry(dataplane, {.lease = static_cast<Duration>(options.lease * kSecond)});
  const std::string text = net::to_string(*http);
  const std::string host = text.substr(0, text.rfind(':'));
  auto server = controller::Server::start(registry, dataplane,
                                          {.host = host[0] == '[' ? host.substr(1, host.size() - 2) : host,
                                           .port = http->port(),
                                           .mtu = setting->mtu,
                                           .dataplane = options.dataplane,
                                           .segmentation = started->segmentation});
  if (!server) return complain("--http: " + server.error().message);
  spdlog::info("listening on UDP {} ({}), HTTP port {}; MTU {}, {} elements per packet, {} slots",
               net::to_string(dataplane.lane_address(0)), started->description, (*server)->port(),
               setting->mtu, setting->capabilities.elements, setting->capabilities.slots);

  spdlog::info("ending on {}", await_ending(signals, [&, told = false]() mutable {
                 if (told || registry.totals().uncut_trains == 0) return;
                 told = true;
                 spdlog::warn(
                     "members' packets arrive several in one, and are dropped: cut them before the switch, "
                     "with `ethtool -K "
                     "DEVICE tx-udp-segmentation off` where members send");
               }));
  registry.end_all("the switch is shutting down");
  // Members ask about once a second; those that do not are told by silence.
  for (int i = 0; i < 30 && registry.members_present() > 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  return 0;
}

}  // namespace

void add_switch(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "switch",
      "Run a switch. It sums what members send and gives the sum back to all.\n\nOptions can also be set by "
      "their variables, or in a TOML file (passing --config FILE switch). A server is a good switch only if "
      "it has a port per host or sits in the forwarding path: see the README.");
  command
      ->add_option("--listen", options->listen, "UDP address for packets. Thread t listens on this port + t")
      ->envname("PASSING_SWITCH_LISTEN")
      ->capture_default_str();
  command->add_option("--http", options->http, "TCP address of the controller: jobs, status, metrics")
      ->envname("PASSING_SWITCH_HTTP")
      ->capture_default_str();
  command
      ->add_option("--dataplane", options->dataplane,
                   "where packets are summed: in this process (userspace), or in the kernel (tc, xdp), which "
                   "needs root. See docs/dataplanes.md")
      ->envname("PASSING_SWITCH_DATAPLANE")
      ->check(CLI::IsMember({"userspace", "tc", "xdp"}))
      ->capture_default_str();
  command
      ->add_option("--interface", options->interfaces,
                   "network interface that is a port of a switch in the kernel; repeat for several. A single "
                   "one answers on itself")
      ->envname("PASSING_SWITCH_INTERFACE")
      ->delimiter(',')
      ->allow_extra_args(false);
  command
      ->add_option("--slots", options->slots, "slots of all jobs together. Default: as many as fit in 32 MB")
      ->envname("PASSING_SWITCH_SLOTS")
      ->check(whole_number(1, 1 << 20));
  command
      ->add_option("--threads", options->threads,
                   "dataplane threads, each with a UDP port. Thread t serves the lanes l with l mod threads "
                   "= t. Default: one per core, at most 4. In the kernel these are only ports; default: 1")
      ->envname("PASSING_SWITCH_THREADS")
      ->check(whole_number(1, 64));
  command
      ->add_option(
          "--mtu", options->mtu,
          "MTU of all paths to members: 576 to 9000, with xdp at most 3500. Default: that of the interfaces")
      ->envname("PASSING_SWITCH_MTU");
  command->add_option("--lease", options->lease, "seconds after which a silent member counts as dead")
      ->envname("PASSING_SWITCH_LEASE")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  command->add_flag("--no-segmentation", options->no_segmentation,
                    "use no UDP segmentation offload, to compare");
  command->add_flag(
      "--preflight", options->preflight,
      "start nothing. Say what a switch in the kernel lacks here, with the command that mends it");
  command->add_flag("--profile", options->profile,
                    "let the kernel measure its programs (passing_program_seconds_total in /metrics)");
  command->add_flag("--echo", options->echo, "benchmark only: give a contribution back instead of the sum")
      ->group("");
  command->footer(
      "Examples:\n  passing switch --listen 0.0.0.0:9000 --http 0.0.0.0:9001\n  passing switch --dataplane "
      "xdp --interface eth1 --interface eth2 --preflight");
  command->fallthrough();  // for --config
  command->callback([options] {
    if (const int status = run(*options); status != 0) throw CLI::RuntimeError(status);
  });
}

}  // namespace passing::cli
