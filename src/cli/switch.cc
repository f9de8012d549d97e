// `passing switch`: the userspace dataplane with its controller.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>

#include "cli/commands.h"
#include "controller/server.h"
#include "dataplane/userspace/userspace.h"
#include "net/mtu.h"

namespace passing::cli {
namespace {

constexpr unsigned kMostDefaultThreads = 4;

struct Options {
  std::string listen = "0.0.0.0:9000";
  std::string http = "0.0.0.0:9001";
  std::uint32_t slots = 0;
  unsigned threads = std::clamp(std::thread::hardware_concurrency(), 1U, kMostDefaultThreads);
  int mtu = 0;
  double lease = 10;
  bool no_segmentation = false;
  bool echo = false;
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

int run(const Options& options) {
  log_to_stderr("switch");
  const auto listen = net::parse_address(options.listen, 9000);
  if (!listen) return complain("--listen: " + listen.error().message);
  const auto http = net::parse_address(options.http, 9001);
  if (!http) return complain("--http: " + http.error().message);
  if (options.mtu != 0 && (options.mtu < net::kSmallestMtu || options.mtu > net::kLargestMtu)) {
    return complain(
        fmt::format("--mtu is {}: must be {} to {}", options.mtu, net::kSmallestMtu, net::kLargestMtu));
  }
  int mtu = options.mtu;
  if (mtu == 0) {
    const auto found = net::interface_mtu(*listen);
    if (!found) return complain(found.error().message);
    mtu = *found;
    if (mtu < net::kSmallestMtu)
      return complain(fmt::format("the interface has MTU {}: must be at least {}", mtu, net::kSmallestMtu));
  }
  dataplane::UserspaceDataplane::Options plan{.listen = *listen,
                                              .threads = options.threads,
                                              .capabilities = {.elements = net::elements_for_mtu(mtu)},
                                              .segmentation = !options.no_segmentation,
                                              .echo = options.echo};
  plan.capabilities.slots = options.slots != 0 ? options.slots : default_slots(plan.capabilities.elements);

  if (plan.capabilities.slots < options.threads) {
    return complain(fmt::format("--slots is {}: must be at least --threads, {}", plan.capabilities.slots,
                                options.threads));
  }
  plan.capabilities.slots = plan.capabilities.slots / options.threads * options.threads;

  const int signals = ending_signals();
  auto dataplane = dataplane::UserspaceDataplane::start(plan);
  if (!dataplane) return complain("--listen: " + dataplane.error().message);
  for (const std::string& warning : (*dataplane)->warnings()) spdlog::warn("{}", warning);

  controller::Registry registry(**dataplane, {.lease = static_cast<Duration>(options.lease * kSecond)});
  const std::string text = net::to_string(*http);
  const std::string host = text.substr(0, text.rfind(':'));
  auto server = controller::Server::start(registry, **dataplane,
                                          {.host = host[0] == '[' ? host.substr(1, host.size() - 2) : host,
                                           .port = http->port(),
                                           .mtu = mtu,
                                           .segmentation = (*dataplane)->segmentation()});
  if (!server) return complain("--http: " + server.error().message);
  spdlog::info(
      "listening on UDP {} ({} thread{}), HTTP port {}; MTU {}, {} elements per packet, {} slots, {}",
      net::to_string((*dataplane)->lane_address(0)), options.threads, options.threads == 1 ? "" : "s",
      (*server)->port(), mtu, plan.capabilities.elements, plan.capabilities.slots,
      (*dataplane)->segmentation() ? "segmentation offload" : "no segmentation offload");

  spdlog::info("ending on {}", await_ending(signals));
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
      "Run a switch: it sums what members send and gives it back to all.\n"
      "Every option can also be set by environment (PASSING_SWITCH_LISTEN, ...) or in a TOML file "
      "(--config).\n"
      "A server is a good switch only with a port per host, or in the forwarding path: see the README.");
  command->add_option("--listen", options->listen, "UDP address for packets; thread t listens on port + t")
      ->envname("PASSING_SWITCH_LISTEN")
      ->capture_default_str();
  command->add_option("--http", options->http, "TCP address of the controller: jobs, status, metrics")
      ->envname("PASSING_SWITCH_HTTP")
      ->capture_default_str();
  command->add_option("--slots", options->slots, "slots in all, shared by jobs; default: what fits 32 MB")
      ->envname("PASSING_SWITCH_SLOTS")
      ->check(whole_number(1, 1 << 20));
  command
      ->add_option(
          "--threads", options->threads,
          "dataplane threads; lane l is served by thread l mod threads; default: one per core, at most 4")
      ->envname("PASSING_SWITCH_THREADS")
      ->check(whole_number(1, 64));
  command
      ->add_option("--mtu", options->mtu,
                   "MTU of all paths to members, 576 to 9000; default: the interface's")
      ->envname("PASSING_SWITCH_MTU");
  command->add_option("--lease", options->lease, "seconds after which a silent member counts as dead")
      ->envname("PASSING_SWITCH_LEASE")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  command->add_flag("--no-segmentation", options->no_segmentation,
                    "do not use UDP segmentation offload (for comparison)");
  command->add_flag("--echo", options->echo, "benchmark only: give a contribution back instead of the sum")
      ->group("");
  command->fallthrough();  // for --config
  command->callback([options] {
    if (const int status = run(*options); status != 0) throw CLI::RuntimeError(status);
  });
}

}  // namespace passing::cli
