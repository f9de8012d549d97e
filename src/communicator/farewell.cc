#include "communicator/farewell.h"

#include <algorithm>

#include "inhost/host.h"
#include "net/waiting.h"

namespace passing {
namespace {

// For all of an orderly end; and of that, at least, to hear that others leave.
constexpr Duration kFarewell = 900 * kMillisecond;
constexpr Duration kHearing = 100 * kMillisecond;
// To get it out at all, where nothing holds it up.
constexpr Duration kGreeting = 50 * kMillisecond;

}  // namespace

// From here on no buffer is used any more.
void Farewell::drop_data() {
  group_.ground.ready.clear();
  group_.carrier.reset();
}

// Needs no memory. No buffer of theirs is used any more.
void Farewell::end_operations(const Error& error) {
  runner_.end_all(error);
  points_.end_all(error);
  for (const StatePtr& each : untaken_) each->fail_unless_ended(error);
  for (const StatePtr& each : mailbox_.take().submitted) each->fail_unless_ended(error);
  untaken_.clear();
}

void Farewell::fail(const Error& error) {
  mailbox_.close(error);
  points_.check();
  // A neighbour that was stopped must not go on to write into what is used anew.
  if (group_.host) group_.host->cancel();
  if (group_.strategy) group_.strategy->abandon(error);
  drop_data();
  end_operations(error);
  witness_.await_all_know();
  group_.control.reset();
  group_.strategy.reset();  // tells the controller, which may take a while: nobody waits for that any more
}

void Farewell::end_without_memory(const Error& error) noexcept {
  mailbox_.close(error);
  if (group_.host) group_.host->cancel();
  try {
    if (group_.strategy) group_.strategy->abandon(error);
  } catch (const std::exception&) {
    // It lets go of buffers when it is destroyed.
  }
  drop_data();
  group_.control.reset();
  end_operations(error);
  group_.strategy.reset();
}

void Farewell::leave() {
  const Time end = net::monotonic_now() + kFarewell;
  // Others first: the switch may take its time.
  if (group_.carrier) tell_others();
  if (group_.strategy) group_.strategy->leave();
  if (group_.carrier) await_others(std::max(kHearing, end - net::monotonic_now()));
  points_.check();
  group_.strategy.reset();
  drop_data();
  group_.control.reset();
  points_.end_all({ErrorCode::cancelled, "the communicator has been closed", {}});
}

void Farewell::tell_others() {
  witness_.leave();
  for (std::uint32_t r = 0; r < group_.config.size; ++r) {
    // Also to those that have left: they wait for this.
    if (r == group_.config.rank || !(group_.ground.contacts[r] || group_.carrier->connected(r))) continue;
    group_.carrier->send_notice(r, strategy::tags::kControl | group_.config.rank,
                                ControlMessage{.type = ControlMessage::Type::leave}.encode(), false);
  }
  witness_.settle(kGreeting,
                  [this] { return group_.carrier->sends_pending() == 0 && group_.control->all_sent(); });
}

// They usually leave now too; those that do not must not miss what is under way.
void Farewell::await_others(Duration limit) {
  witness_.settle(limit, [this] {
    for (std::uint32_t r = 0; r < group_.config.size; ++r) {
      if (r != group_.config.rank && !group_.left[r] && group_.ground.contacts[r] && !witness_.failure())
        return false;
    }
    return group_.carrier->sends_pending() == 0 && group_.control->all_sent();
  });
}

}  // namespace passing
