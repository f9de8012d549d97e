// The ranks that share memory, as one of them sees them: docs/inhost.md.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/time.h"
#include "inhost/door.h"
#include "inhost/heap.h"
#include "inhost/layout.h"
#include "inhost/place.h"
#include "passing/types.h"

namespace passing::inhost {

/// One rank's call of an all-reduce: all ranks of the host make the same, in the same order.
struct Call {
  const void* input = nullptr;
  void* output = nullptr;  ///< the input itself, or disjoint from it
  std::size_t count = 0;
  DataType type = DataType::float32;
  Reduction reduction = Reduction::sum;
  Time deadline = 0;         ///< of the clock now()
  std::uint32_t owners = 0;  ///< the first so many ranks sum, a stripe each; 0: all

  /// "sum of 1000 float32".
  std::string describe() const;
};

/// Used by one thread at a time; starts none. The first fault is the end: it comes to all ranks, and every
/// later call fails with it.
class Host {
 public:
  struct Options {
    std::vector<std::uint32_t> ranks;  ///< of the host, in order: neighbours()
    std::uint32_t rank = 0;            ///< this one
    std::uint64_t group = 0;           ///< says of which communicator; the same on all
    std::vector<std::string> names;    ///< for messages, in the order of ranks; empty: by number
    std::string leader;                ///< the door of the first rank
    Settings settings;
    Duration timeout = 60 * kSecond;
  };

  /// Returns when all ranks of the host have the memory. The door is not needed any more then.
  static Expected<std::unique_ptr<Host>> join(const Door& door, const Options& options);
  /// Leaves: neighbours that still need this rank get an error.
  ~Host();
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  std::size_t size() const { return ranks_.size(); }
  std::size_t index() const { return me_; }
  std::uint32_t rank(std::size_t index) const { return ranks_[index]; }
  const Settings& settings() const { return settings_; }
  /// Where this rank belongs: for bind_thread().
  Placement& placement() { return placement_; }

  /// The whole of it. On failure the output is unspecified. A neighbour that was stopped while it wrote into
  /// a buffer of allocate() still ends what it was copying, at most one piece, when it goes on.
  Expected<void> all_reduce(const Call& call);

  /// Memory that neighbours can read, so that nothing need be copied. Not initialised. It ends with the host.
  Expected<void*> allocate(std::size_t bytes);
  /// Of allocate(), and not in use by an operation. False: it is none of those, or free already.
  bool free(const void* data);

  /// Readable when a neighbour has died or this rank is to be woken from a sleep(): for callers with a loop
  /// of their own, which then call look().
  int descriptor() const { return events_.get(); }
  /// Notices the dead, and tells everyone.
  void look();
  /// Why nothing works any more.
  const std::optional<Error>& trouble();
  /// Ends it on all ranks.
  void cancel();
  /// Somebody has told of trouble: nothing is written into the memory of neighbours any more, and what was
  /// read from it until now may have been anything.
  bool closed() const;

  // For Operation.
  std::uint64_t count(Stage stage) const { return own_[stage]; }
  /// Whether all ranks have got so far.
  bool reached(Stage stage, std::uint64_t least) const;
  /// This rank has got one piece further: wakes those who waited for just that. False: it has not, since it
  /// is closed(), and so nobody takes for a sum what is none.
  bool advance(Stage stage);
  /// Waits for one of them, or for trouble, until the deadline, which is trouble too.
  void wait(const Awaited& awaited, Time deadline);
  /// The same for a short time, and without blame for the late.
  void nap(const Awaited& awaited, Duration limit);
  /// For a loop of the caller's: true if he may sleep until descriptor() is readable.
  bool sleep(const Awaited& awaited);
  void report(ErrorCode code, std::uint64_t ranks, std::uint64_t piece, bool left = false);
  Description& description(std::size_t index, std::uint64_t piece) {
    return header().rank[index].descriptions[piece % kSlots];
  }
  std::byte* part(std::size_t index) const {
    return segment_.data() + sizeof(Header) + index * settings_.shared_bytes;
  }
  std::byte* slot(std::size_t index, std::uint64_t piece) const {
    return part(index) + piece % kSlots * settings_.slot_bytes;
  }
  std::byte* results(std::size_t index, std::uint64_t piece) const {
    return part(index) + (kSlots + piece % kSlots) * settings_.slot_bytes;
  }
  /// Where in this rank's part a buffer lies; kNowhere: outside.
  std::uint64_t offset(const void* data, std::size_t bytes) const;
  /// The number of the operation, and of its first piece.
  std::pair<std::uint64_t, std::uint64_t> enqueue(std::uint64_t pieces);

 private:
  Host() = default;
  Header& header() const { return *reinterpret_cast<Header*>(segment_.data()); }
  bool any(const Awaited& awaited) const;
  bool spin(const Awaited& awaited);
  void lie_down(const Awaited& awaited, Bell how);
  void get_up();
  void ring(std::size_t index);
  std::uint64_t below(Stage stage, std::uint64_t least) const;
  std::uint64_t behind(const Awaited& awaited) const;
  void miss_the_left(const Awaited& awaited);
  void miss_the_late(const Awaited& awaited);
  std::string names(std::uint64_t ranks) const;
  Error explain(std::size_t reporter) const;
  Expected<void> watch();

  std::vector<std::uint32_t> ranks_;
  std::vector<std::string> names_;
  Settings settings_;
  std::size_t me_ = 0;
  pid_t process_ = 0;  // a child that was forked is not this rank
  Segment segment_;
  std::vector<Descriptor> processes_;
  std::vector<Descriptor> bells_;
  std::vector<Descriptor> sockets_;
  Descriptor events_;
  Placement placement_;
  Heap heap_;
  std::optional<Error> trouble_;
  std::uint64_t own_[kStages] = {};
  std::uint64_t operations_ = 0;
  std::uint64_t pieces_ = 0;
  Awaited asleep_for_;
  bool crowded_ = false;   // more ranks than cores
  Duration patience_ = 0;  // how long to spin
};

}  // namespace passing::inhost
