// A barrier that names who does not come: over the store, which works when the network of the group does not.
// clang-format off: first, so that the build proves that it compiles alone
#include "store.h"
// clang-format on

#include <algorithm>
#include <string>

#include "backend.h"

namespace passing::torch_backend {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// The texts are those of gloo's, which scripts may look for.
const std::string kPassed = "passed";
constexpr milliseconds kExplanation(1000);

milliseconds left_until(Clock::time_point deadline) {
  return std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
}

std::string names(const std::vector<int>& ranks) {
  std::string all;
  for (const int each : ranks) all += (all.empty() ? "" : ", ") + std::to_string(each);
  return (ranks.size() == 1 ? "Rank " : "Ranks ") + all;
}

}  // namespace

void PassingBackend::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_for_all) {
  const milliseconds timeout = options.timeout == c10d::kUnsetTimeout ? timeout_ : options.timeout;
  const auto run = running();
  c10d::Store& store = *run->store;
  const std::string room = "passing/monitored/" + std::to_string(monitored_++) + "/";
  const std::string verdict = room + "verdict";
  const auto deadline = Clock::now() + timeout;
  if (rank_ != 0) {
    put(store, room + std::to_string(rank_), "here");
    // Rank 0 waits as long, and then has to say so.
    const bool told = comes_within(store, {verdict}, left_until(deadline + kExplanation));
    const std::string text = told ? text_at(store, verdict) : "it did not come, or waits for another rank";
    TORCH_CHECK(
        text == kPassed, "Rank ", rank_,
        " successfully reached monitoredBarrier, but received errors while waiting for send/recv from "
        "rank 0 for ",
        timeout.count(), " ms: ", text);
    return;
  }
  TORCH_CHECK(timeout.count() > 0 || size_ == 1, "Rank 0 timed out in monitoredBarrier after ",
              timeout.count(), " ms");
  std::vector<int> missing;
  for (int r = 1; r < size_ && (missing.empty() || wait_for_all); ++r) {
    if (!comes_within(store, {room + std::to_string(r)}, left_until(deadline))) missing.push_back(r);
  }
  const std::string text = missing.empty() ? kPassed
                                           : names(missing) + " failed to pass monitoredBarrier in " +
                                                 std::to_string(timeout.count()) + " ms";
  put(store, verdict, text);
  TORCH_CHECK(missing.empty(), text);
}

}  // namespace passing::torch_backend
