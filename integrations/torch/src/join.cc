// How a group begins: settings from the environment, everything that ranks must share through the store.
#include <algorithm>
#include <random>
#include <string>

#include "backend.h"
#include "store.h"

namespace passing::torch_backend {
namespace {

using std::chrono::milliseconds;

std::string random_hex(int words) {
  std::random_device source;
  std::string text;
  for (int i = 0; i < words; ++i) {
    char word[9];
    std::snprintf(word, sizeof word, "%08x", source());
    text += word;
  }
  return text;
}

// Of the ranks whose keys are not there.
std::string missing_ranks(c10d::Store& store, const std::vector<std::string>& keys) {
  std::string missing;
  for (std::size_t r = 0; r < keys.size(); ++r) {
    if (!store.check({keys[r]})) missing += (missing.empty() ? "" : ", ") + std::to_string(r);
  }
  return missing;
}

// Blobs by the store, each with the size of the group as its rank knows it.
Exchange exchange_over(const c10::intrusive_ptr<c10d::Store>& store, std::uint32_t rank, std::uint32_t size,
                       milliseconds timeout) {
  return [=](const std::string& blob) -> Expected<std::vector<std::string>> {
    const auto refuse = [](ErrorCode code, std::string sentence) {
      return tl::unexpected(Error{code, std::move(sentence), {}});
    };
    std::vector<std::string> keys;
    for (std::uint32_t r = 0; r < size; ++r) keys.push_back("passing/blob/" + std::to_string(r));
    try {
      put(*store, keys[rank], std::to_string(size) + "\n" + blob);
      try {
        store->wait(keys, timeout);
      } catch (const std::exception& trouble) {
        const std::string missing = missing_ranks(*store, keys);
        if (!missing.empty()) {
          return refuse(ErrorCode::deadline,
                        "rank " + missing + " of " + std::to_string(size) + " did not come within " +
                            std::to_string(timeout.count() / 1000) +
                            " s: was every process started, and with the same world size?");
        }
      }
      std::vector<std::string> blobs;
      for (std::uint32_t r = 0; r < size; ++r) {
        const std::string text = text_at(*store, keys[r]);
        const std::size_t end = text.find('\n');
        if (text.substr(0, end) != std::to_string(size)) {
          return refuse(ErrorCode::disagreement, "rank " + std::to_string(r) + " has a world size of " +
                                                     text.substr(0, end) + ", this one, rank " +
                                                     std::to_string(rank) + ", of " + std::to_string(size));
        }
        blobs.push_back(text.substr(end + 1));
      }
      return blobs;
    } catch (const std::exception& trouble) {
      return refuse(ErrorCode::unreachable, std::string("the store of the group: ") + trouble.what());
    }
  };
}

// The name of the run, for all groups of this process: its parameter servers know it by that.
std::string& run_name() {
  static std::string name;
  return name;
}

// The group's own name and secret, which rank 0 chooses.
void share_names(Config& config, c10d::Store& store) {
  const std::string key = "passing/names";
  if (config.rank == 0) {
    if (run_name().empty())
      run_name() = config.job == Config().job ? "torch-" + random_hex(1) : config.job.substr(0, 20);
    const std::string token = config.token.empty() ? random_hex(4) : config.token;
    put(store, key, run_name() + "\n" + run_name() + "." + random_hex(1) + "\n" + token);
  }
  store.wait({key}, config.create_timeout);
  const std::string text = text_at(store, key);
  const std::size_t first = text.find('\n');
  const std::size_t second = text.find('\n', first + 1);
  run_name() = text.substr(0, first);
  config.job = text.substr(first + 1, second - first - 1);
  config.token = text.substr(second + 1);
}

constexpr milliseconds kLongestMeeting = std::chrono::minutes(5);

}  // namespace

c10::intrusive_ptr<Base> PassingBackend::create(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                                int size, milliseconds timeout) {
  TORCH_CHECK(size >= 1 && rank >= 0 && rank < size, "passing: rank ", rank, " in a world of ", size,
              ": must be 0 to size - 1");
  auto config = Config::from_environment(static_cast<std::uint32_t>(rank), static_cast<std::uint32_t>(size));
  if (!config) throw exception_of(config.error());
  const bool chosen = !config->strategy.empty() && config->strategy != "auto";
  config->timeout = timeout;
  if (config->create_timeout == Config().create_timeout)
    config->create_timeout = std::min(timeout, kLongestMeeting);
  share_names(*config, *store);
  config->exchange = exchange_over(store, config->rank, config->size, config->create_timeout);
  auto communicator = Communicator::create(*config);
  if (!communicator) throw exception_of(communicator.error());
  // All ranks come to the same conclusion.
  TORCH_CHECK(
      chosen || communicator->hosts() <= 1 || !config->controller.empty(), "passing: the ", size,
      " ranks are on ", communicator->hosts(),
      " hosts, and no switch is configured: start one (passing switch) and set "
      "PASSING_CONTROLLER=HOST:PORT, or choose to train without, by PASSING_STRATEGY=ring_hierarchical");
  return c10::make_intrusive<PassingBackend>(store, std::move(*communicator), timeout);
}

}  // namespace passing::torch_backend
