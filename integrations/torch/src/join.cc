// How a group begins: settings from the environment, everything that ranks must share through the store.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <optional>
#include <random>
#include <string>

#include "backend.h"
#include "base/reminder.h"
#include "store.h"

namespace passing::torch_backend {
namespace {

using Clock = std::chrono::steady_clock;
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

// What a rank puts where its blob would be, if it cannot take part.
constexpr char kTrouble = '!';

std::string blob_key(std::uint32_t rank) { return "passing/blob/" + std::to_string(rank); }

// What is known of the others so far: someone in trouble, or with another world size.
std::optional<Error> trouble_among(c10d::Store& store, std::uint32_t rank, std::uint32_t size) {
  for (std::uint32_t r = 0; r < size; ++r) {
    if (!has(store, {blob_key(r)})) continue;
    const std::string text = text_at(store, blob_key(r));
    const std::string head = text.substr(0, text.find('\n'));
    if (text[0] == kTrouble)
      return Error{ErrorCode::peer_lost, "rank " + std::to_string(r) + ": " + text.substr(1), {}};
    if (head != std::to_string(size)) {
      return Error{ErrorCode::disagreement,
                   "rank " + std::to_string(r) + " has a world size of " + head + ", this one, rank " +
                       std::to_string(rank) + ", of " + std::to_string(size),
                   {}};
    }
  }
  return std::nullopt;
}

std::string missing_ranks(c10d::Store& store, std::uint32_t size) {
  std::string missing;
  for (std::uint32_t r = 0; r < size; ++r) {
    if (!has(store, {blob_key(r)})) missing += (missing.empty() ? "" : ", ") + std::to_string(r);
  }
  return missing;
}

constexpr milliseconds kLook(1000);  // at who has come, while some have not

Time now_as_time() { return std::chrono::nanoseconds(Clock::now().time_since_epoch()).count(); }

// Waits for keys; an error names who does not come, or cannot.
std::optional<Error> await_all(c10d::Store& store, const std::vector<std::string>& keys, const Config& config,
                               const std::function<std::string()>& missing) {
  const milliseconds timeout = config.create_timeout;
  const auto deadline = Clock::now() + timeout;
  Reminder reminder(now_as_time());
  for (;;) {
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
    const bool all = comes_within(store, keys, std::min(left, kLook));
    if (const auto trouble = trouble_among(store, config.rank, config.size)) return trouble;
    if (all) return std::nullopt;
    if (left > milliseconds(0)) {
      if (const Time now = now_as_time(); !config.quiet && reminder.due(now)) {
        // Someone may just have come.
        if (const std::string who = missing(); !who.empty()) {
          std::fprintf(stderr, "passing: rank %u has waited %d s for rank %s of %u to come to the store\n",
                       config.rank, static_cast<int>(reminder.waited(now) / kSecond), who.c_str(),
                       config.size);
        }
      }
      continue;
    }
    return Error{ErrorCode::deadline,
                 "rank " + missing() + " of " + std::to_string(config.size) + " did not come within " +
                     std::to_string(timeout.count() / 1000) +
                     " s: was every process started, and with the same world size?",
                 {}};
  }
}

// Blobs by the store, each with the size of the group as its rank knows it.
Exchange exchange_over(const c10::intrusive_ptr<c10d::Store>& store, const Config& config) {
  return [store, config](const std::string& blob) -> Expected<std::vector<std::string>> {
    try {
      put(*store, blob_key(config.rank), std::to_string(config.size) + "\n" + blob);
      std::vector<std::string> keys;
      for (std::uint32_t r = 0; r < config.size; ++r) keys.push_back(blob_key(r));
      const auto missing = [&] { return missing_ranks(*store, config.size); };
      if (auto trouble = await_all(*store, keys, config, missing)) return tl::unexpected(*trouble);
      std::vector<std::string> blobs;
      for (const std::string& each : keys) {
        const std::string text = text_at(*store, each);
        blobs.push_back(text.substr(text.find('\n') + 1));
      }
      return blobs;
    } catch (const std::exception& trouble) {
      return tl::unexpected(
          Error{ErrorCode::unreachable, std::string("the store of the group: ") + trouble.what(), {}});
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
  } else {
    // A store in a file has none until someone writes, and looking at it would wait for that.
    put(store, "passing/here/" + std::to_string(config.rank), "");
  }
  // Only rank 0 gives it; who else has not come is not known yet.
  const auto trouble = await_all(store, {key}, config, [] { return "0"; });
  if (trouble) {
    put(store, blob_key(config.rank), kTrouble + trouble->message);
    throw exception_of(*trouble);
  }
  const std::string text = text_at(store, key);
  const std::size_t first = text.find('\n');
  const std::size_t second = text.find('\n', first + 1);
  run_name() = text.substr(0, first);
  config.job = text.substr(first + 1, second - first - 1);
  config.token = text.substr(second + 1);
}

// The groups of this process, for its end.
struct Living {
  std::mutex mutex;
  std::vector<c10::weak_intrusive_ptr<PassingBackend>> groups;
};

Living& living() {
  static auto* const all = new Living;  // used by whatever ends last
  return *all;
}

constexpr milliseconds kLongestMeeting = std::chrono::minutes(5);

// Not by comparing with the default, which someone may have set on purpose. Set to nothing is not set.
bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != 0;
}

}  // namespace

c10::intrusive_ptr<Base> PassingBackend::create(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                                int size, milliseconds timeout) {
  TORCH_CHECK(size >= 1 && rank >= 0 && rank < size, "passing: rank ", rank, " in a world of ", size,
              ": must be 0 to size - 1");
  auto config = Config::from_environment(static_cast<std::uint32_t>(rank), static_cast<std::uint32_t>(size));
  if (!config) {
    // The others need not wait for it.
    put(*store, blob_key(static_cast<std::uint32_t>(rank)), kTrouble + config.error().message);
    throw exception_of(config.error());
  }
  const bool chosen = !config->strategy.empty() && config->strategy != "auto";
  config->timeout = timeout;
  if (!is_set("PASSING_CREATE_TIMEOUT")) config->create_timeout = std::min(timeout, kLongestMeeting);
  share_names(*config, *store);
  config->exchange = exchange_over(store, *config);
  auto communicator = Communicator::create(*config);
  if (!communicator) throw exception_of(communicator.error());
  // All ranks come to the same conclusion.
  TORCH_CHECK(
      chosen || communicator->hosts() <= 1 || !config->controller.empty(), "passing: the ", size,
      " ranks are on ", communicator->hosts(),
      " hosts, and no switch is configured: start one (passing switch) and set "
      "PASSING_CONTROLLER=HOST:PORT, or choose to train without, by PASSING_STRATEGY=ring_hierarchical");
  auto made = c10::make_intrusive<PassingBackend>(store, std::move(*communicator), timeout);
  const std::lock_guard lock(living().mutex);
  std::erase_if(living().groups, [](const auto& each) { return each.expired(); });
  living().groups.emplace_back(made);
  return made;
}

void PassingBackend::leave_all() {
  std::vector<c10::intrusive_ptr<PassingBackend>> groups;
  {
    const std::lock_guard lock(living().mutex);
    for (const auto& each : living().groups) groups.push_back(each.lock());
  }
  for (const auto& each : groups) {
    if (each) each->leave();
  }
}

}  // namespace passing::torch_backend
