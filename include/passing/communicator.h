// The communicator: a group of ranks that reduce, broadcast and send.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "passing/config.h"
#include "passing/error.h"
#include "passing/types.h"

namespace passing {

/// An operation under way. Cheap to copy; all copies mean the same operation. Any thread may use it, also
/// after the communicator is gone. Dropping it does not stop the operation.
class PASSING_API Operation {
 public:
  /// Waits until it has ended. It always ends: by result, by error, or soon after its deadline.
  Expected<void> wait() const;
  /// Whether it has ended; then wait() returns at once.
  bool test() const;
  /// Gives it up. A recv that has not begun just ends; anything else that has not ended breaks the
  /// communicator on all ranks, since the others count on this one.
  void cancel() const;
  /// Calls `what` when it has ended, at once if it has: once, on whichever thread ended it. It must be quick,
  /// and neither throw nor call this library. For one caller only.
  void on_end(std::function<void()> what) const;
  /// Of a recv that ended well: who sent it.
  std::uint32_t source() const;

  struct State;
  explicit Operation(std::shared_ptr<State> state) : state_(std::move(state)) {}

 private:
  std::shared_ptr<State> state_;
};

/// Instead of a rank that recv takes from: the first that sends.
constexpr std::uint32_t kAnySource = UINT32_MAX;

/// Per call; none, or 0: Config::timeout. A negative one is over already.
struct CallOptions {
  std::optional<std::chrono::milliseconds> timeout;
};

/// One rank's end of a group. All ranks must call the same collectives in the same order; send and recv go
/// their own way. Calls come from any thread and return at once; bad arguments show in wait(). Buffers must
/// stay until the operation has ended, and what is in the output of a failed one is unspecified.
///
/// After an error that concerns the group, every operation of every rank fails with it; make a new
/// communicator then. A process that forks keeps its communicators in the parent; in the child they only
/// return errors.
class PASSING_API Communicator {
 public:
  /// Returns when all ranks have called it.
  static Expected<Communicator> create(const Config& config);
  static Expected<Communicator> from_environment();
  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept;
  /// Fails what has not ended, and leaves the group.
  ~Communicator();

  std::uint32_t rank() const;
  std::uint32_t size() const;
  std::uint32_t local_rank() const;
  std::uint32_t local_size() const;
  /// How many hosts its ranks are on; 0: the strategy does not need to know.
  std::uint32_t hosts() const;
  const std::string& strategy() const;
  /// Which way an all_reduce goes, and why, in one sentence: what auto chooses by.
  std::string explain(std::size_t count, DataType type, Reduction reduction = Reduction::sum) const;
  /// "rank 3 at 10.0.0.4:41233 (host gpu4, process 4711)".
  std::string name_of(std::uint32_t rank) const;
  /// Empty, or why every call fails.
  std::optional<Error> error() const;

  /// `output` is `input` itself or apart from it.
  Operation all_reduce(const void* input, void* output, std::size_t count, DataType type,
                       Reduction reduction = Reduction::sum, const CallOptions& options = {});
  /// Only the root gets the result; others may give a null output.
  Operation reduce(const void* input, void* output, std::size_t count, DataType type, Reduction reduction,
                   std::uint32_t root, const CallOptions& options = {});
  /// `input` has `count` elements for each rank, in order of rank; `output` gets those of this one, reduced.
  Operation reduce_scatter(const void* input, void* output, std::size_t count, DataType type,
                           Reduction reduction = Reduction::sum, const CallOptions& options = {});
  /// `output` gets `count` elements from each rank, in order of rank. `input` may be this rank's place in it.
  Operation all_gather(const void* input, void* output, std::size_t count, DataType type,
                       const CallOptions& options = {});
  /// The same with counts[r] elements from rank r; all ranks give the same counts.
  Operation all_gatherv(const void* input, void* output, const std::vector<std::size_t>& counts,
                        DataType type, const CallOptions& options = {});
  /// As all_gather, to the root; others may give a null output.
  Operation gather(const void* input, void* output, std::size_t count, DataType type, std::uint32_t root,
                   const CallOptions& options = {});
  /// The root's `input` has `count` elements for each rank; others may give a null input.
  Operation scatter(const void* input, void* output, std::size_t count, DataType type, std::uint32_t root,
                    const CallOptions& options = {});
  /// `count` elements from every rank to every rank. Input and output must be apart.
  Operation all_to_all(const void* input, void* output, std::size_t count, DataType type,
                       const CallOptions& options = {});
  /// The same with outgoing[r] elements for rank r and incoming[r] from it, without gaps.
  Operation all_to_allv(const void* input, const std::vector<std::size_t>& outgoing, void* output,
                        const std::vector<std::size_t>& incoming, DataType type,
                        const CallOptions& options = {});
  Operation broadcast(void* buffer, std::size_t count, DataType type, std::uint32_t root,
                      const CallOptions& options = {});
  Operation barrier(const CallOptions& options = {});
  /// Between two ranks, matched by tag (below 2^31); messages with one tag keep their order.
  Operation send(const void* data, std::size_t bytes, std::uint32_t to, std::uint32_t tag,
                 const CallOptions& options = {});
  /// The message must have exactly `bytes`. `from`: a rank, or kAnySource.
  Operation recv(void* data, std::size_t bytes, std::uint32_t from, std::uint32_t tag,
                 const CallOptions& options = {});

  /// A buffer for any operation. Where ranks of a host share memory, theirs need not be copied. Not
  /// initialised; it lives until free(), or as long as the communicator.
  Expected<void*> allocate(std::size_t bytes);
  /// Of allocate(), and no operation uses it. Null is none; anything else that is not in use is an error.
  Expected<void> free(void* data);

  /// All ranks call it. Those with the same color form a group, ordered by key, then by rank; a negative
  /// color joins none. Waits for the others, and for a split of another thread: no other collective of this
  /// communicator may be called meanwhile.
  Expected<std::optional<Communicator>> split(int color, int key = 0);

 private:
  class Impl;
  explicit Communicator(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace passing
