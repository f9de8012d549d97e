#include "communicator/call_ledger.h"

#include <algorithm>

namespace passing {

void CallLedger::append(std::deque<LedgerCall>& calls, LedgerCall call) {
  if (!calls.empty() && calls.back().signature == call.signature && calls.back().counts == call.counts) {
    calls.back().times += call.times;
  } else {
    calls.push_back(std::move(call));
  }
}

void CallLedger::call(LedgerCall call) {
  called_ += call.times;
  unannounced_calls_ += call.times;
  append(mine_, call);
  append(unannounced_, std::move(call));
}

void CallLedger::announced_by_left(LedgerCall call) {
  if (call.times > 0) append(theirs_, std::move(call));
}

std::optional<CallLedger::Difference> CallLedger::compare() {
  while (!mine_.empty() && !theirs_.empty()) {
    LedgerCall& mine = mine_.front();
    LedgerCall& theirs = theirs_.front();
    if (mine.signature != theirs.signature) {
      Difference difference{compared_, std::move(theirs), std::move(mine)};
      mine_.clear();
      theirs_.clear();
      return difference;
    }
    const std::uint64_t both = std::min(mine.times, theirs.times);
    compared_ += both;
    for (auto* calls : {&mine_, &theirs_}) {
      calls->front().times -= both;
      if (calls->front().times == 0) calls->pop_front();
    }
  }
  return std::nullopt;
}

}  // namespace passing
