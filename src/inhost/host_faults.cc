// Neighbours that die, leave, are late or disagree: docs/inhost.md section 5.
#include <fmt/format.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/shortage.h"
#include "inhost/host.h"

namespace passing::inhost {
namespace {

std::uint64_t bit(std::size_t index) { return std::uint64_t{1} << index; }

}  // namespace

Expected<void> Host::watch() {
  events_ = Descriptor(epoll_create1(EPOLL_CLOEXEC));
  const auto add = [&](const Descriptor& source, std::size_t index) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = index << 32 | static_cast<std::uint32_t>(source.get());
    return !source || epoll_ctl(events_.get(), EPOLL_CTL_ADD, source.get(), &event) == 0;
  };
  bool good = static_cast<bool>(events_) && add(bells_[me_], me_);
  for (std::size_t i = 0; i < size(); ++i) {
    if (i != me_) good = good && add(processes_[i], i) && add(sockets_[i], i);
  }
  if (good) return {};
  return fail(ErrorCode::no_capacity,
              fmt::format("{} cannot watch its neighbours: {}{}", names_[me_], std::strerror(errno),
                          shortage_remedy(errno)),
              {static_cast<std::uint16_t>(ranks_[me_])});
}

void Host::look() {
  epoll_event events[16];
  const int count = epoll_wait(events_.get(), events, 16, 0);
  for (int i = 0; i < count; ++i) {
    const std::size_t index = events[i].data.u64 >> 32;
    const int source = static_cast<int>(events[i].data.u64 & 0xFFFFFFFF);
    if (index == me_) {
      std::uint64_t rings = 0;
      [[maybe_unused]] const auto got = ::read(source, &rings, sizeof rings);
      continue;
    }
    epoll_ctl(events_.get(), EPOLL_CTL_DEL, source, nullptr);
    if (header().rank[index].state.left.load() == 0) report(ErrorCode::peer_lost, bit(index), own_[given]);
  }
  if (header().rank[me_].sleep.bell.load() == in_poll) get_up();
  miss_the_left(asleep_for_);
}

// Of the others, in bits.
std::uint64_t Host::below(Stage stage, std::uint64_t least) const {
  std::uint64_t ranks = 0;
  for (std::size_t i = 0; i < size(); ++i) {
    if (i != me_ && header().rank[i].stages[stage].count.load() < least) ranks |= bit(i);
  }
  return ranks;
}

std::uint64_t Host::behind(const Awaited& awaited) const {
  std::uint64_t ranks = 0;
  for (const Stage stage : {given, added, summed, taken}) {
    if (awaited.least[stage] != kNowhere) ranks |= below(stage, awaited.least[stage]);
  }
  return ranks;
}

// Who left has done all he will do: what is missing then will not come.
void Host::miss_the_left(const Awaited& awaited) {
  std::uint64_t left = 0;
  for (std::size_t i = 0; i < size(); ++i) {
    if (i != me_ && header().rank[i].state.left.load() != 0) left |= bit(i);
  }
  if (left == 0) return;
  if (const std::uint64_t lost = left & behind(awaited); lost != 0)
    report(ErrorCode::peer_lost, lost, own_[given], true);
}

// Not everyone who is behind is to blame: others wait too, for whoever is behind in the first stage of the
// first piece.
void Host::miss_the_late(const Awaited& awaited) {
  const std::uint64_t least = *std::min_element(awaited.least.begin(), awaited.least.end());
  std::uint64_t late = 0;
  for (const Stage stage : {given, added, summed, taken}) {
    if (late == 0 && least != kNowhere) late = below(stage, least);
  }
  report(ErrorCode::deadline, late, least == kNowhere ? own_[taken] : least - 1);
}

void Host::report(ErrorCode code, std::uint64_t ranks, std::uint64_t piece, bool left) {
  if (header().reporter.load() != 0) return;
  Fault& fault = header().rank[me_].state.fault;
  fault.ranks = ranks;
  fault.piece = piece;
  fault.operation = operations_ - 1;
  fault.code = static_cast<std::uint32_t>(code);
  fault.left = left ? 1 : 0;
  // The record is whole before it counts: a reporter that dies on the way has said nothing.
  std::uint32_t nobody = 0;
  header().reporter.compare_exchange_strong(nobody, static_cast<std::uint32_t>(me_ + 1));
#ifndef __SANITIZE_THREAD__  // which knows no fences
  // Before this rank's buffers are used for something else.
  std::atomic_thread_fence(std::memory_order_release);
#endif
  for (std::size_t i = 0; i < size(); ++i) {
    if (i != me_) ring(i);
  }
}

void Host::cancel() { report(ErrorCode::cancelled, bit(me_), own_[given]); }

const std::optional<Error>& Host::trouble() {
  if (!trouble_) {
    const std::uint32_t reporter = header().reporter.load();
    if (reporter != 0) trouble_ = explain((reporter - 1) % size());
  }
  return trouble_;
}

std::string Host::names(std::uint64_t ranks) const {
  std::vector<std::string> list;
  for (std::size_t i = 0; i < size(); ++i) {
    if ((ranks & bit(i)) != 0) list.push_back(names_[i]);
  }
  return fmt::format("{}", fmt::join(list, ", "));
}

Error Host::explain(std::size_t reporter) const {
  const Fault fault = header().rank[reporter].state.fault;
  const auto called = [&](std::size_t index) {
    const Description& what = header().rank[index].descriptions[fault.piece % kSlots];
    const Call call{.count = what.count,
                    .type = static_cast<DataType>(what.type),
                    .reduction = static_cast<Reduction>(what.reduction)};
    return fmt::format("{} (operation {}, summed by {} ranks)", call.describe(), what.operation, what.owners);
  };
  Error error{static_cast<ErrorCode>(fault.code), {}, {}};
  for (std::size_t i = 0; i < size(); ++i) {
    if ((fault.ranks & bit(i)) != 0) error.members.push_back(static_cast<std::uint16_t>(ranks_[i]));
  }
  switch (error.code) {
    case ErrorCode::peer_lost:
      error.message = fault.left != 0 ? fmt::format("{} has left the host before operation {} was done",
                                                    names(fault.ranks), fault.operation)
                                      : fmt::format("{} has died", names(fault.ranks));
      break;
    case ErrorCode::deadline:
      error.message = fmt::format("operation {} was aborted at the deadline of {}; missing: {}",
                                  fault.operation, names_[reporter], names(fault.ranks));
      break;
    case ErrorCode::disagreement: {
      const std::uint64_t others = fault.ranks & ~bit(reporter);
      const auto other = static_cast<std::size_t>(others != 0 ? __builtin_ctzll(others) : 0);
      const std::size_t a = std::min(reporter, other);
      const std::size_t b = std::max(reporter, other);
      error.message = fmt::format("the ranks of a host called different operations: {} {}, {} {}", names_[a],
                                  called(a), names_[b % size()], called(b % size()));
      break;
    }
    case ErrorCode::cancelled: error.message = fmt::format("{} has cancelled", names(fault.ranks)); break;
    default: error.message = fmt::format("{} reports a fault", names_[reporter]);
  }
  return error;
}

}  // namespace passing::inhost
