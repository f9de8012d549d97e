// Everyone says hello to the first rank; when all are there it makes the memory and passes it on, with the
// bells and processes of all; when all have it, they begin.
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <optional>
#include <thread>

#include "base/shortage.h"
#include "inhost/door.h"
#include "inhost/layout.h"
#include "inhost/letter.h"

namespace passing::inhost {
namespace {

constexpr auto kPause = std::chrono::milliseconds(1);
// For the first rank to say who is missing, when everyone's patience ends at the same time.
constexpr Duration kExplanation = kSecond;

std::uint16_t number(std::uint32_t rank) { return static_cast<std::uint16_t>(rank); }

Expected<Descriptor> make_bell() {
  Descriptor bell(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (bell) return bell;
  return system_failure(ErrorCode::no_capacity, "cannot make an event descriptor", errno);
}

Descriptor open_process(int process) {
  return Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
}

/// What a rank says of itself, said of it.
Error about(const Visitor& visitor, std::size_t index, const Error& error) {
  return {
      error.code, fmt::format("{} {}", visitor.names[index], error.message), {number(visitor.ranks[index])}};
}

cpu_set_t own_cores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  sched_getaffinity(0, sizeof cores, &cores);
  return cores;
}

/// A rank's part of the memory, before there is anything in it.
void bind_part(Placement& placement, const Segment& segment, std::size_t index, std::size_t part_bytes) {
  bind_memory(placement, segment.data() + sizeof(Header) + index * part_bytes, part_bytes);
}

/// The first rank's side.
class Leader {
 public:
  Leader(const Door& door, const Visitor& visitor)
      : door_(door), visitor_(visitor), seats_(visitor.ranks.size()) {}

  Expected<Meeting> run(Time deadline) {
    auto met = all(deadline);
    if (met) return met;
    Letter letter;
    letter.error = met.error();
    for (const Seat& seat : seats_) {
      if (seat.socket) post(seat.socket.get(), letter);
    }
    return met;
  }

 private:
  struct Seat {
    Descriptor socket;
    Descriptor process;
    Descriptor bell;
    cpu_set_t cores{};
    bool mapped = false;
  };
  // Connected, and nothing heard yet.
  struct Stranger {
    Descriptor socket;
    int process = 0;
  };

  Expected<Meeting> all(Time deadline) {
    auto bell = make_bell();
    if (!bell) return tl::unexpected(about(visitor_, 0, bell.error()));
    seats_[0].bell = std::move(*bell);
    seats_[0].process = open_process(getpid());
    seats_[0].cores = own_cores();
    while (missing([](const Seat& seat) { return static_cast<bool>(seat.socket); }) != 0) {
      if (auto good = hear(deadline, "has not come"); !good) return tl::unexpected(good.error());
    }
    auto segment = pass_on();
    if (!segment) return tl::unexpected(segment.error());
    while (missing([](const Seat& seat) { return seat.mapped; }) != 0) {
      if (auto good = hear(deadline, "does not answer"); !good) return tl::unexpected(good.error());
    }
    Letter begin;
    begin.subject = Subject::begin;
    Meeting meeting;
    meeting.segment = std::move(*segment);
    meeting.placement = placement_;
    for (Seat& seat : seats_) {
      if (seat.socket) post(seat.socket.get(), begin);
      meeting.processes.push_back(std::move(seat.process));
      meeting.bells.push_back(std::move(seat.bell));
      meeting.sockets.push_back(std::move(seat.socket));
    }
    return meeting;
  }

  template <class Has>
  std::uint64_t missing(Has has) const {
    std::uint64_t mask = 0;
    for (std::size_t i = 1; i < seats_.size(); ++i) {
      if (!has(seats_[i])) mask |= std::uint64_t{1} << i;
    }
    return mask;
  }

  Expected<void> hear(Time deadline, const char* late) {
    std::vector<int> sources{door_.descriptor()};
    for (const Stranger& each : strangers_) sources.push_back(each.socket.get());
    for (const Seat& seat : seats_) {
      if (seat.socket) sources.push_back(seat.socket.get());
    }
    if (!readable(sources, deadline)) {
      const std::uint64_t who = missing([&](const Seat& seat) {
        return seat.mapped || (seat.socket && std::strcmp(late, "has not come") == 0);
      });
      std::vector<std::string> names;
      std::vector<std::uint16_t> ranks;
      for (std::size_t i = 1; i < seats_.size(); ++i) {
        if ((who >> i & 1) == 0) continue;
        names.push_back(visitor_.names[i]);
        ranks.push_back(number(visitor_.ranks[i]));
      }
      return fail(
          ErrorCode::deadline,
          fmt::format("the ranks of a host did not meet in time: {} {}", fmt::join(names, ", "), late),
          ranks);
    }
    if (auto good = let_in(); !good) return good;
    greet();
    if (trouble_) return tl::unexpected(*trouble_);
    return listen();
  }

  Expected<void> let_in() {
    for (;;) {
      Descriptor socket(::accept4(door_.descriptor(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!socket) {
        if (shortage_remedy(errno).empty()) return {};
        return tl::unexpected(about(
            visitor_, 0,
            {ErrorCode::no_capacity,
             fmt::format("cannot accept a connection: {}{}", std::strerror(errno), shortage_remedy(errno)),
             {}}));
      }
      const Credentials who = credentials(socket.get());
      if (who.same_user) strangers_.push_back({std::move(socket), who.process});
    }
  }

  // Who does not say the right thing is none of us.
  void greet() {
    std::erase_if(strangers_, [&](Stranger& stranger) {
      auto letter = open_letter(stranger.socket.get());
      if (!letter) {
        // Too few descriptors here, not there.
        if (letter.error().code == ErrorCode::no_capacity) trouble_ = about(visitor_, 0, letter.error());
        return true;
      }
      if (letter->subject == Subject::trouble && letter->error.message.empty()) return false;
      if (letter->group != visitor_.group || letter->index == 0 || letter->index >= seats_.size() ||
          seats_[letter->index].socket)
        return true;
      Seat& seat = seats_[letter->index];
      if (letter->subject == Subject::trouble) {
        trouble_ = about(visitor_, letter->index, letter->error);
        seat.socket = std::move(stranger.socket);
        return true;
      }
      if (letter->subject != Subject::hello || letter->enclosed.size() != 1) return true;
      seat.process = open_process(stranger.process);
      seat.socket = std::move(stranger.socket);
      seat.bell = std::move(letter->enclosed.front());
      seat.cores = letter->cores;
      return true;
    });
  }

  Expected<void> listen() {
    for (std::size_t i = 1; i < seats_.size(); ++i) {
      if (!seats_[i].socket) continue;
      auto letter = open_letter(seats_[i].socket.get());
      if (!letter) return tl::unexpected(about(visitor_, i, letter.error()));
      if (letter->subject == Subject::mapped) seats_[i].mapped = true;
      if (letter->subject == Subject::trouble && !letter->error.message.empty())
        return tl::unexpected(about(visitor_, i, letter->error));
    }
    return {};
  }

  // For all, since only here all are known; and so only one process has to look at the machine.
  std::vector<Placement> place() const {
    std::vector<cpu_set_t> allowed;
    for (const Seat& seat : seats_) allowed.push_back(seat.cores);
    return place_ranks(allowed.size() > 1 ? visitor_.nodes() : std::vector<Node>{}, allowed);
  }

  Expected<Segment> pass_on() {
    const auto placements = place();
    placement_ = placements[0];
    auto made = Segment::create(segment_bytes(seats_.size(), visitor_.settings.shared_bytes));
    if (made) bind_part(placement_, made->first, 0, visitor_.settings.shared_bytes);
    if (made) {
      if (auto good = commit(made->first.data(), sizeof(Header) + all_slots(visitor_.settings.slot_bytes));
          !good)
        made = tl::unexpected(good.error());
    }
    if (!made) return tl::unexpected(about(visitor_, 0, made.error()));
    auto* header = new (made->first.data()) Header;
    header->ranks = seats_.size();
    header->part_bytes = visitor_.settings.shared_bytes;
    header->slot_bytes = visitor_.settings.slot_bytes;
    cpu_set_t together;
    CPU_ZERO(&together);
    for (const Seat& seat : seats_) CPU_OR(&together, &together, &seat.cores);
    header->cores = static_cast<std::uint64_t>(CPU_COUNT(&together));

    Letter letter;
    letter.subject = Subject::memory;
    std::vector<int> enclosed{made->second.get()};
    for (const Seat& seat : seats_) enclosed.push_back(seat.bell.get());
    for (std::size_t i = 0; i < seats_.size(); ++i) {
      if (!seats_[i].process) continue;
      letter.known |= std::uint64_t{1} << i;
      enclosed.push_back(seats_[i].process.get());
    }
    for (std::size_t i = 1; i < seats_.size(); ++i) {
      letter.node = placements[i].node;
      letter.cores = placements[i].cores;
      if (!post(seats_[i].socket.get(), letter, enclosed)) {
        return tl::unexpected(about(visitor_, i,
                                    {ErrorCode::peer_lost,
                                     "could not be given the shared memory: it has died, or the security "
                                     "policy (SELinux) forbids passing descriptors",
                                     {}}));
      }
    }
    return std::move(made->first);
  }

  const Door& door_;
  const Visitor& visitor_;
  std::vector<Seat> seats_;
  std::vector<Stranger> strangers_;
  Placement placement_;
  std::optional<Error> trouble_;
};

Expected<Descriptor> visit(const Visitor& visitor, Time deadline) {
  const Address address = address_of(visitor.leader);
  for (;;) {
    Descriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket) {
      return tl::unexpected(
          about(visitor, visitor.index,
                {ErrorCode::no_capacity,
                 fmt::format("cannot open a Unix socket: {}{}", std::strerror(errno), shortage_remedy(errno)),
                 {}}));
    }
    if (::connect(socket.get(), address.get(), address.length) == 0) {
      const Credentials who = credentials(socket.get());
      if (who.same_user) return socket;
      return tl::unexpected(
          about(visitor, 0,
                {ErrorCode::disagreement,
                 fmt::format("is of another user ({}, not {}); run the ranks of a host as one "
                             "user, or give them different host labels",
                             who.user, geteuid()),
                 {}}));
    }
    const bool busy = errno == EAGAIN || errno == EINTR;
    if (!busy || now() >= deadline) {
      return tl::unexpected(
          about(visitor, 0,
                {ErrorCode::peer_lost,
                 fmt::format("cannot be reached by {} ({}): it has died, or is in another "
                             "network namespace and needs another host label, or the security "
                             "policy (SELinux) forbids Unix sockets",
                             visitor.names[visitor.index], std::strerror(errno)),
                 {}}));
    }
    std::this_thread::sleep_for(kPause);
  }
}

Expected<Letter> await(const Visitor& visitor, int socket, Subject subject, Time deadline) {
  for (;;) {
    if (!readable({socket}, deadline)) {
      return tl::unexpected(about(
          visitor, 0, {ErrorCode::deadline, "did not bring the ranks of its host together in time", {}}));
    }
    auto letter = open_letter(socket);
    if (!letter) {
      const bool own = letter.error().code == ErrorCode::no_capacity;
      return tl::unexpected(about(visitor, own ? visitor.index : 0, letter.error()));
    }
    if (letter->subject == subject) return letter;
    if (letter->subject == Subject::trouble && !letter->error.message.empty())
      return tl::unexpected(letter->error);
  }
}

/// Says what is wrong here, and hears what is said of it to all.
tl::unexpected<Error> complain(const Visitor& visitor, int socket, const Error& error, Time deadline) {
  Letter letter;
  letter.index = static_cast<std::uint32_t>(visitor.index);
  letter.group = visitor.group;
  letter.error = error;
  if (post(socket, letter)) {
    auto answer = await(visitor, socket, Subject::begin, deadline);
    if (!answer && answer.error().code == error.code) return tl::unexpected(answer.error());
  }
  return tl::unexpected(about(visitor, visitor.index, error));
}

Expected<Segment> map_all(const Visitor& visitor, Letter& letter, Meeting& meeting) {
  const std::size_t ranks = visitor.ranks.size();
  const auto known = static_cast<std::size_t>(__builtin_popcountll(letter.known));
  if (letter.enclosed.size() != 1 + ranks + known)
    return fail(ErrorCode::disagreement, "was not given all descriptors");
  const Settings& settings = visitor.settings;
  auto segment = Segment::map(letter.enclosed.front(), segment_bytes(ranks, settings.shared_bytes));
  if (!segment) return segment;
  const auto* header = reinterpret_cast<const Header*>(segment->data());
  if (header->magic != kMagic || header->ranks != ranks || header->part_bytes != settings.shared_bytes ||
      header->slot_bytes != settings.slot_bytes)
    return fail(ErrorCode::disagreement, "was given shared memory that is not what it should be");
  meeting.placement = {.node = letter.node, .cores = letter.cores};
  bind_part(meeting.placement, *segment, visitor.index, settings.shared_bytes);
  if (auto good = commit(segment->data() + sizeof(Header) + visitor.index * settings.shared_bytes,
                         all_slots(settings.slot_bytes));
      !good)
    return tl::unexpected(good.error());
  std::size_t next = 1;
  for (std::size_t i = 0; i < ranks; ++i) meeting.bells.push_back(std::move(letter.enclosed[next++]));
  for (std::size_t i = 0; i < ranks; ++i) {
    const bool has = (letter.known >> i & 1) != 0;
    meeting.processes.push_back(has ? std::move(letter.enclosed[next++]) : Descriptor());
  }
  return segment;
}

Expected<Meeting> follow(const Visitor& visitor, Time deadline) {
  auto socket = visit(visitor, deadline);
  if (!socket) return tl::unexpected(socket.error());
  const Time patience = deadline + kExplanation;
  auto bell = make_bell();
  if (!bell) return complain(visitor, socket->get(), bell.error(), patience);
  Letter hello;
  hello.subject = Subject::hello;
  hello.index = static_cast<std::uint32_t>(visitor.index);
  hello.group = visitor.group;
  hello.cores = own_cores();
  if (!post(socket->get(), hello, {bell->get()}))
    return tl::unexpected(about(visitor, 0, {ErrorCode::peer_lost, "has died or given up", {}}));

  auto letter = await(visitor, socket->get(), Subject::memory, patience);
  if (!letter) {
    // What is wrong on this side, everyone must hear.
    if (letter.error().code != ErrorCode::no_capacity ||
        letter.error().members != std::vector{number(visitor.ranks[visitor.index])})
      return tl::unexpected(letter.error());
    Error own = letter.error();
    own.message.erase(0, visitor.names[visitor.index].size() + 1);
    return complain(visitor, socket->get(), own, patience);
  }
  Meeting meeting;
  auto segment = map_all(visitor, *letter, meeting);
  if (!segment) return complain(visitor, socket->get(), segment.error(), patience);
  meeting.segment = std::move(*segment);
  Letter mapped;
  mapped.subject = Subject::mapped;
  post(socket->get(), mapped);
  if (auto begin = await(visitor, socket->get(), Subject::begin, patience); !begin)
    return tl::unexpected(begin.error());
  meeting.sockets.resize(visitor.ranks.size());
  meeting.sockets[0] = std::move(*socket);
  return meeting;
}

}  // namespace

Expected<Meeting> meet(const Door& door, const Visitor& visitor, Time deadline) {
  return visitor.index == 0 ? Leader(door, visitor).run(deadline) : follow(visitor, deadline);
}

}  // namespace passing::inhost
