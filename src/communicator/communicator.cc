#include "passing/communicator.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/hash.h"
#include "communicator/engine.h"
#include "communicator/settings.h"
#include "net/hex.h"
#include "net/member.h"
#include "strategy/reduce.h"

namespace passing {

using strategy::Kind;
using What = Operation::State::What;

class Communicator::Impl {
 public:
  explicit Impl(std::unique_ptr<Engine> running) : engine(std::move(running)) {}

  const Config& config() const { return engine->config(); }

  StatePtr prepare(const CallOptions& options) const {
    auto state = std::make_shared<Operation::State>();
    state->mailbox = engine->mailbox();
    state->begun = net::monotonic_now();
    using std::chrono::milliseconds;
    const auto given = options.timeout.value_or(milliseconds(0));
    const auto timeout = std::clamp(given == milliseconds(0) ? config().timeout : given, milliseconds(0),
                                    *milliseconds_of(kLongestTimeout));
    state->timeout = timeout.count() * kMillisecond;
    state->call.deadline = state->begun + state->timeout;
    return state;
  }
  Operation begin(const StatePtr& state) const {
    engine->mailbox()->submit(state);
    return Operation(state);
  }
  static Operation refuse(const StatePtr& state, const std::string& why) {
    state->mailbox.reset();
    state->end(fail(ErrorCode::invalid_argument, why));
    return Operation(state);
  }
  /// The checks that all collectives with elements share, then begins it. `wrong` is what the caller found.
  Operation collective(const char* name, const StatePtr& state, const strategy::Signature& signature,
                       std::string wrong, const void* input, std::size_t input_elements, void* output,
                       std::size_t output_elements) const;
  /// Everyone's blobs, by rank, and which of the collectives brought them: all ranks number them alike.
  struct Exchanged {
    std::vector<std::string> blobs;
    std::uint64_t number = 0;
  };
  Expected<Exchanged> exchange(std::string blob) const {
    const StatePtr state = prepare({});
    state->call.signature.kind = Kind::exchange;
    state->call.blob = std::move(blob);
    if (auto ended = begin(state).wait(); !ended) return tl::unexpected(ended.error());
    return Exchanged{state->call.blobs, state->call.number};
  }

  std::unique_ptr<Engine> engine;
  Mutex splitting;  // a split is two exchanges; those of another must not come between them
};

namespace {

// Sums and copies count bytes in 64 bits; a tensor has fewer.
constexpr std::size_t kMostElements = std::size_t{1} << 48;

std::string wrong_count(std::size_t count) {
  return fmt::format("count is {}: must be at most 2^48 (was it negative?)", count);
}

std::string wrong_type(DataType type) {
  return fmt::format("type is {}: must be one of DataType, 1 to {}", static_cast<unsigned>(type), kDataTypes);
}

bool apart(const void* a, std::size_t a_bytes, const void* b, std::size_t b_bytes) {
  const auto first = reinterpret_cast<std::uintptr_t>(a);
  const auto second = reinterpret_cast<std::uintptr_t>(b);
  return a_bytes == 0 || b_bytes == 0 || first + a_bytes <= second || second + b_bytes <= first;
}

// What is wrong with a reduction of this type, or nothing.
std::string wrong_reduction(DataType type, Reduction reduction) {
  if (strategy::route(type, reduction) != strategy::Route::none) return "";
  if (static_cast<unsigned>(reduction) < 1 || static_cast<unsigned>(reduction) > kReductions) {
    return fmt::format("reduction is {}: must be one of Reduction, 1 to {}", static_cast<unsigned>(reduction),
                       kReductions);
  }
  return fmt::format("{} cannot be reduced by {}: see the table in docs/numerics.md", to_string(type),
                     to_string(reduction));
}

// 0 means that there are no counts.
std::uint64_t shape_of(const std::vector<std::size_t>& counts) { return hash_of(counts) | 1; }

}  // namespace

Communicator::Communicator(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Communicator::Communicator(Communicator&&) noexcept = default;
Communicator& Communicator::operator=(Communicator&& other) noexcept {
  Communicator old(std::move(other));
  std::swap(impl_, old.impl_);
  return *this;  // `old` goes as any other does
}

Communicator::~Communicator() {
  // In a fork there is no thread to join, and the connections are the parent's.
  if (impl_ && impl_->engine->process() != getpid()) static_cast<void>(impl_.release());
}

Expected<Communicator> Communicator::create(const Config& config) {
  auto engine = Engine::create(config);
  if (!engine) return tl::unexpected(engine.error());
  return Communicator(std::make_unique<Impl>(std::move(*engine)));
}

Expected<Communicator> Communicator::from_environment() {
  const auto config = Config::from_environment();
  if (!config) return tl::unexpected(config.error());
  return create(*config);
}

std::uint32_t Communicator::rank() const { return impl_->config().rank; }
std::uint32_t Communicator::size() const { return impl_->config().size; }
std::uint32_t Communicator::local_rank() const { return impl_->config().local_rank; }
std::uint32_t Communicator::local_size() const { return impl_->config().local_size; }
std::uint32_t Communicator::hosts() const { return impl_->engine->hosts(); }
const std::string& Communicator::strategy() const { return impl_->config().strategy; }
std::optional<Error> Communicator::error() const { return impl_->engine->mailbox()->closed(); }
std::string Communicator::name_of(std::uint32_t rank) const {
  return rank < size() ? impl_->engine->names()[rank]
                       : fmt::format("rank {} (of {}: no such rank)", rank, size());
}

Operation Communicator::Impl::collective(const char* name, const StatePtr& state,
                                         const strategy::Signature& signature, std::string wrong,
                                         const void* input, std::size_t input_elements, void* output,
                                         std::size_t output_elements) const {
  const bool reduces = signature.kind == Kind::all_reduce || signature.kind == Kind::reduce ||
                       signature.kind == Kind::reduce_scatter;
  if (size_of(signature.type) == 0) {
    wrong = wrong_type(signature.type);
  } else if (signature.count > kMostElements) {
    wrong = wrong_count(signature.count);
  } else if (signature.root >= config().size) {
    wrong = fmt::format("root is {}: must be a rank, 0 to {}", signature.root, config().size - 1);
  } else if (const std::string no = reduces ? wrong_reduction(signature.type, signature.reduction) : "";
             !no.empty()) {
    wrong = no;
  } else if (input_elements > 0 && input == nullptr) {
    wrong = "the input buffer is null";
  } else if (output_elements > 0 && output == nullptr) {
    wrong = "the output buffer is null";
  }
  if (!wrong.empty()) return refuse(state, fmt::format("{}: {}", name, wrong));
  state->call.signature = signature;
  state->call.input = input;
  state->call.output = output;
  return begin(state);
}

namespace {

// Input and output of a reduction: the same, or apart.
std::string wrong_overlap(const void* input, const void* output, std::size_t bytes) {
  const bool good = input == output || apart(input, bytes, output, bytes);
  return good ? "" : "input and output overlap; they must be the same or apart";
}

std::string must_be_apart(const void* input, std::size_t input_bytes, const void* output,
                          std::size_t output_bytes) {
  return apart(input, input_bytes, output, output_bytes) ? ""
                                                         : "input and output overlap; they must be apart";
}

}  // namespace

Operation Communicator::all_reduce(const void* input, void* output, std::size_t count, DataType type,
                                   Reduction reduction, const CallOptions& options) {
  return impl_->collective("all_reduce", impl_->prepare(options),
                           {.kind = Kind::all_reduce, .type = type, .reduction = reduction, .count = count},
                           wrong_overlap(input, output, count * size_of(type)), input, count, output, count);
}

Operation Communicator::reduce(const void* input, void* output, std::size_t count, DataType type,
                               Reduction reduction, std::uint32_t root, const CallOptions& options) {
  const bool here = root == rank();
  return impl_->collective(
      "reduce", impl_->prepare(options),
      {.kind = Kind::reduce, .type = type, .reduction = reduction, .root = root, .count = count},
      here ? wrong_overlap(input, output, count * size_of(type)) : "", input, count, output,
      here ? count : 0);
}

Operation Communicator::reduce_scatter(const void* input, void* output, std::size_t count, DataType type,
                                       Reduction reduction, const CallOptions& options) {
  const std::size_t bytes = count * size_of(type);
  return impl_->collective(
      "reduce_scatter", impl_->prepare(options),
      {.kind = Kind::reduce_scatter, .type = type, .reduction = reduction, .count = count},
      must_be_apart(input, bytes * size(), output, bytes), input, count * size(), output, count);
}

Operation Communicator::all_gather(const void* input, void* output, std::size_t count, DataType type,
                                   const CallOptions& options) {
  const std::size_t bytes = count * size_of(type);
  const auto* own = static_cast<const std::byte*>(output) + rank() * bytes;
  const StatePtr state = impl_->prepare(options);
  state->call.incoming.assign(size(), count);
  return impl_->collective("all_gather", state, {.kind = Kind::all_gather, .type = type, .count = count},
                           input == own ? "" : must_be_apart(input, bytes, output, bytes * size()), input,
                           count, output, count * size());
}

Operation Communicator::all_gatherv(const void* input, void* output, const std::vector<std::size_t>& counts,
                                    DataType type, const CallOptions& options) {
  const StatePtr state = impl_->prepare(options);
  if (counts.size() != size())
    return Impl::refuse(state, fmt::format("all_gatherv: {} counts for {} ranks", counts.size(), size()));
  std::size_t total = 0;
  std::size_t before = 0;
  for (std::uint32_t r = 0; r < size(); ++r) {
    if (counts[r] > kMostElements) return Impl::refuse(state, "all_gatherv: " + wrong_count(counts[r]));
    if (r < rank()) before += counts[r];
    total += counts[r];
  }
  const std::size_t width = size_of(type);
  const auto* own = static_cast<const std::byte*>(output) + before * width;
  state->call.incoming.assign(counts.begin(), counts.end());
  return impl_->collective(
      "all_gatherv", state,
      {.kind = Kind::all_gather, .type = type, .count = total, .shape = shape_of(counts)},
      input == own ? "" : must_be_apart(input, counts[rank()] * width, output, total * width), input,
      counts[rank()], output, total);
}

Operation Communicator::gather(const void* input, void* output, std::size_t count, DataType type,
                               std::uint32_t root, const CallOptions& options) {
  const std::size_t bytes = count * size_of(type);
  const bool here = root == rank();
  const auto* own = static_cast<const std::byte*>(output) + rank() * bytes;
  return impl_->collective("gather", impl_->prepare(options),
                           {.kind = Kind::gather, .type = type, .root = root, .count = count},
                           !here || input == own ? "" : must_be_apart(input, bytes, output, bytes * size()),
                           input, count, output, here ? count * size() : 0);
}

Operation Communicator::scatter(const void* input, void* output, std::size_t count, DataType type,
                                std::uint32_t root, const CallOptions& options) {
  const std::size_t bytes = count * size_of(type);
  const bool here = root == rank();
  const auto* own = static_cast<const std::byte*>(input) + rank() * bytes;
  return impl_->collective("scatter", impl_->prepare(options),
                           {.kind = Kind::scatter, .type = type, .root = root, .count = count},
                           !here || output == own ? "" : must_be_apart(input, bytes * size(), output, bytes),
                           input, here ? count * size() : 0, output, count);
}

Operation Communicator::all_to_all(const void* input, void* output, std::size_t count, DataType type,
                                   const CallOptions& options) {
  const std::size_t bytes = count * size_of(type) * size();
  const StatePtr state = impl_->prepare(options);
  state->call.outgoing.assign(size(), count);
  state->call.incoming.assign(size(), count);
  return impl_->collective("all_to_all", state, {.kind = Kind::all_to_all, .type = type, .count = count},
                           must_be_apart(input, bytes, output, bytes), input, count * size(), output,
                           count * size());
}

Operation Communicator::all_to_allv(const void* input, const std::vector<std::size_t>& outgoing, void* output,
                                    const std::vector<std::size_t>& incoming, DataType type,
                                    const CallOptions& options) {
  const StatePtr state = impl_->prepare(options);
  if (outgoing.size() != size() || incoming.size() != size()) {
    return Impl::refuse(state, fmt::format("all_to_allv: {} outgoing and {} incoming counts for {} ranks",
                                           outgoing.size(), incoming.size(), size()));
  }
  std::size_t out = 0;
  std::size_t in = 0;
  for (std::uint32_t r = 0; r < size(); ++r) {
    if (std::max(outgoing[r], incoming[r]) > kMostElements)
      return Impl::refuse(state, "all_to_allv: " + wrong_count(std::max(outgoing[r], incoming[r])));
    out += outgoing[r];
    in += incoming[r];
  }
  if (outgoing[rank()] != incoming[rank()]) {
    return Impl::refuse(state, fmt::format("all_to_allv: {} elements for this rank itself, but {} from it",
                                           outgoing[rank()], incoming[rank()]));
  }
  state->call.outgoing.assign(outgoing.begin(), outgoing.end());
  state->call.incoming.assign(incoming.begin(), incoming.end());
  // Counts differ between ranks: they are no part of the agreement, but every pair finds out.
  return impl_->collective(
      "all_to_allv", state,
      {.kind = Kind::all_to_all, .type = type, .count = size() == 1 ? in : 0, .shape = 1},
      must_be_apart(input, out * size_of(type), output, in * size_of(type)), input, out, output, in);
}

Operation Communicator::broadcast(void* buffer, std::size_t count, DataType type, std::uint32_t root,
                                  const CallOptions& options) {
  return impl_->collective("broadcast", impl_->prepare(options),
                           {.kind = Kind::broadcast, .type = type, .root = root, .count = count}, "", nullptr,
                           0, buffer, count);
}

Operation Communicator::barrier(const CallOptions& options) {
  const StatePtr state = impl_->prepare(options);
  state->call.signature.kind = Kind::barrier;
  return impl_->begin(state);
}

namespace {

std::string wrong_peer(const char* what, std::uint32_t peer, std::uint32_t rank, std::uint32_t size) {
  if (peer >= size || peer == rank)
    return fmt::format("{}: the peer is rank {}: must be another rank, 0 to {}", what, peer, size - 1);
  return "";
}

std::string wrong_point(const char* what, const void* data, std::size_t bytes, std::uint32_t tag) {
  if (tag >= 1U << 31) return fmt::format("{}: the tag is {}: must be below 2^31", what, tag);
  if (bytes > 0 && data == nullptr) return fmt::format("{} of {} bytes: the buffer is null", what, bytes);
  if (bytes > kMostElements) return fmt::format("{}: {}", what, wrong_count(bytes));
  return "";
}

}  // namespace

Operation Communicator::send(const void* data, std::size_t bytes, std::uint32_t to, std::uint32_t tag,
                             const CallOptions& options) {
  const StatePtr state = impl_->prepare(options);
  std::string wrong = wrong_peer("send", to, rank(), size());
  if (wrong.empty()) wrong = wrong_point("send", data, bytes, tag);
  if (!wrong.empty()) return Impl::refuse(state, wrong);
  state->what = What::send;
  state->peer = to;
  state->tag = tag;
  state->bytes = bytes;
  state->call.input = data;
  return impl_->begin(state);
}

Operation Communicator::recv(void* data, std::size_t bytes, std::uint32_t from, std::uint32_t tag,
                             const CallOptions& options) {
  const StatePtr state = impl_->prepare(options);
  std::string wrong = from != kAnySource ? wrong_peer("recv", from, rank(), size())
                      : size() == 1      ? "recv from any rank: there is no other rank"
                                         : "";
  if (wrong.empty()) wrong = wrong_point("recv", data, bytes, tag);
  if (!wrong.empty()) return Impl::refuse(state, wrong);
  state->what = What::recv;
  state->peer = from;
  state->tag = tag;
  state->bytes = bytes;
  state->call.output = data;
  return impl_->begin(state);
}

namespace {

// The name of a part of a job; a hash where it would become too long.
std::string part_of(const std::string& job, std::uint64_t split, int color) {
  std::string name = fmt::format("{}.{}.{}", job, split, color);
  if (name.size() <= kLongestJob) return name;
  return job.substr(0, kLongestJob / 2) + "." + net::to_hex(hash_of(name));
}

}  // namespace

std::string Communicator::explain(std::size_t count, DataType type, Reduction reduction) const {
  const strategy::Signature what{
      .kind = Kind::all_reduce, .type = type, .reduction = reduction, .count = count};
  if (const auto& plan = impl_->engine->plan()) return plan->explain(what);
  return fmt::format("{}: {}, as set; {} ranks", what.describe(), strategy(), size());
}

Expected<void*> Communicator::allocate(std::size_t bytes) {
  if (impl_->engine->mailbox()->foreign())
    return tl::unexpected(impl_->engine->mailbox()->fork_error().error());
  return impl_->engine->allocate(bytes);
}

Expected<void> Communicator::free(void* data) {
  if (impl_->engine->mailbox()->foreign()) return impl_->engine->mailbox()->fork_error();
  return impl_->engine->free(data);
}

Expected<std::optional<Communicator>> Communicator::split(int color, int key) {
  // In a fork the lock may be that of a thread which is not there.
  if (impl_->engine->mailbox()->foreign())
    return tl::unexpected(impl_->engine->mailbox()->fork_error().error());
  const MutexLock lock(impl_->splitting);
  const auto wishes = impl_->exchange(fmt::format("{} {} {}", color, key, impl_->engine->host_name()));
  if (!wishes) return tl::unexpected(wishes.error());
  struct Wish {
    int key;
    std::uint32_t rank;
    bool operator<(const Wish& other) const {
      return std::pair(key, rank) < std::pair(other.key, other.rank);
    }
  };
  std::vector<Wish> members;
  std::uint32_t neighbours = 0;  // of this host, in the group
  std::uint32_t before = 0;
  for (std::uint32_t r = 0; r < size(); ++r) {
    int their_color = 0;
    int their_key = 0;
    int label = 0;
    const std::string& wish = wishes->blobs[r];
    std::sscanf(wish.c_str(), "%d %d %n", &their_color, &their_key, &label);
    if (their_color != color) continue;
    members.push_back({their_key, r});
    if (wish.substr(static_cast<std::size_t>(label)) != impl_->engine->host_name()) continue;
    ++neighbours;
    if (Wish{their_key, r} < Wish{key, rank()}) ++before;
  }
  std::sort(members.begin(), members.end());

  // Those that join no group still take part in the exchange: it is a collective of all.
  if (color < 0) {
    if (auto blobs = impl_->exchange(""); !blobs) return tl::unexpected(blobs.error());
    return std::optional<Communicator>();
  }
  Config config = impl_->config();
  const auto own =
      std::find_if(members.begin(), members.end(), [&](const Wish& each) { return each.rank == rank(); });
  config.rank = static_cast<std::uint32_t>(own - members.begin());
  config.size = static_cast<std::uint32_t>(members.size());
  config.local_rank = before;
  config.local_size = neighbours;
  config.job = part_of(config.job, wishes->number, color);
  bool exchanged = false;
  config.exchange = [&](const std::string& blob) -> Expected<std::vector<std::string>> {
    exchanged = true;
    const auto all = impl_->exchange(blob);
    if (!all) return tl::unexpected(all.error());
    std::vector<std::string> ours;
    ours.reserve(members.size());
    for (const Wish& each : members) ours.push_back(all->blobs[each.rank]);
    return ours;
  };
  auto part = create(config);
  // A group of one needs no exchange, and one that could not be made must not keep the others waiting.
  if (!exchanged) {
    const Introduction excuse{.version = PASSING_VERSION_STRING,
                              .trouble = part ? "it is alone" : part.error().message};
    static_cast<void>(impl_->exchange(excuse.encode()));
  }
  if (!part) return tl::unexpected(part.error());
  return std::optional<Communicator>(std::move(*part));
}

}  // namespace passing
