// The C interface: communicators and operations. No exception leaves it.
#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <utility>

#include "communicator/c_guard.h"
#include "communicator/c_handles.h"
#include "communicator/settings.h"

using passing::CallOptions;
using passing::Communicator;
using passing::DataType;
using passing::Error;
using passing::Expected;
using passing::Operation;
using passing::Reduction;
using passing::c::guarded;
using passing::c::is_null;
using passing::c::refuse;
using passing::c::same;

namespace {

static_assert(same(PASSING_FLOAT32, DataType::float32));
static_assert(same(PASSING_FLOAT16, DataType::float16));
static_assert(same(PASSING_BFLOAT16, DataType::bfloat16));
static_assert(same(PASSING_INT32, DataType::int32));
static_assert(same(PASSING_FLOAT64, DataType::float64));
static_assert(same(PASSING_INT8, DataType::int8));
static_assert(same(PASSING_UINT8, DataType::uint8));
static_assert(same(PASSING_INT16, DataType::int16));
static_assert(same(PASSING_UINT16, DataType::uint16));
static_assert(same(PASSING_UINT32, DataType::uint32));
static_assert(same(PASSING_INT64, DataType::int64));
static_assert(same(PASSING_UINT64, DataType::uint64));
static_assert(same(PASSING_BOOLEAN, DataType::boolean));
static_assert(same(PASSING_BOOLEAN, passing::kDataTypes), "a type is missing in passing.h");
static_assert(same(PASSING_SUM, Reduction::sum));
static_assert(same(PASSING_AVERAGE, Reduction::average));
static_assert(same(PASSING_PRODUCT, Reduction::product));
static_assert(same(PASSING_MIN, Reduction::min));
static_assert(same(PASSING_MAX, Reduction::max));
static_assert(same(PASSING_BIT_AND, Reduction::bit_and));
static_assert(same(PASSING_BIT_OR, Reduction::bit_or));
static_assert(same(PASSING_BIT_XOR, Reduction::bit_xor));
static_assert(same(PASSING_BIT_XOR, passing::kReductions), "a reduction is missing in passing.h");

Expected<CallOptions> options_of(double timeout) {
  if (timeout == 0) return CallOptions{};
  const auto duration = passing::milliseconds_of(timeout);
  if (!duration) {
    return refuse(
        fmt::format("timeout is {} seconds: must be above 0, at most {:.0f}, or 0 for the communicator's",
                    timeout, passing::kLongestTimeout));
  }
  return CallOptions{.timeout = *duration};
}

// Enumerators of a caller may have any value, and a cast to the C++ enumeration would cut it to 8 bits.
Expected<DataType> type_of(passing_type type) {
  const auto value = static_cast<std::int64_t>(type);
  if (value >= PASSING_FLOAT32 && value <= PASSING_BOOLEAN) return static_cast<DataType>(value);
  return refuse(fmt::format("type is {}: must be PASSING_FLOAT32 (1) to PASSING_BOOLEAN (13)", value));
}

Expected<Reduction> reduction_of(passing_reduction reduction) {
  const auto value = static_cast<std::int64_t>(reduction);
  if (value >= PASSING_SUM && value <= PASSING_BIT_XOR) return static_cast<Reduction>(value);
  return refuse(fmt::format("reduction is {}: must be PASSING_SUM (1) to PASSING_BIT_XOR (8)", value));
}

/// Calls `begin`, which returns Expected<Operation>, and waits if the caller wants no handle.
template <class Begin>
passing_status start(passing_comm* comm, double timeout, passing_op** op, const Begin& begin) {
  if (op != nullptr) *op = nullptr;
  return guarded([&]() -> Expected<void> {
    if (comm == nullptr) return is_null("comm");
    const auto options = options_of(timeout);
    if (!options) return tl::unexpected<Error>(options.error());
    // The handle first: without memory for it, an operation that has begun would be lost.
    auto handle = std::make_unique<passing_op>(passing_op{Operation(nullptr)});
    Expected<Operation> begun = begin(comm->communicator, *options);
    if (!begun) return tl::unexpected<Error>(std::move(begun.error()));
    if (op == nullptr) return begun->wait();
    handle->operation = std::move(*begun);
    *op = handle.release();
    return {};
  });
}

/// The same for what has elements: `begin` gets their type, too.
template <class Begin>
passing_status start_typed(passing_comm* comm, passing_type type, double timeout, passing_op** op,
                           const Begin& begin) {
  return start(comm, timeout, op, [&](Communicator& with, const CallOptions& options) -> Expected<Operation> {
    const auto data_type = type_of(type);
    if (!data_type) return tl::unexpected<Error>(data_type.error());
    return begin(with, *data_type, options);
  });
}

/// The same for what reduces: `begin` gets type and reduction.
template <class Begin>
passing_status start_reducing(passing_comm* comm, passing_type type, passing_reduction reduction,
                              double timeout, passing_op** op, const Begin& begin) {
  return start_typed(
      comm, type, timeout, op,
      [&](Communicator& with, DataType data_type, const CallOptions& options) -> Expected<Operation> {
        const auto how = reduction_of(reduction);
        if (!how) return tl::unexpected<Error>(how.error());
        return begin(with, data_type, *how, options);
      });
}

template <class Get>
std::uint32_t get(const passing_comm* comm, const Get& getter) {
  return comm == nullptr ? std::numeric_limits<std::uint32_t>::max() : (comm->communicator.*getter)();
}

}  // namespace

extern "C" {

passing_status passing_split(passing_comm* comm, int color, int key, passing_comm** part) {
  return guarded([&]() -> Expected<void> {
    if (part == nullptr) return is_null("part");
    *part = nullptr;
    if (comm == nullptr) return is_null("comm");
    auto made = comm->communicator.split(color, key);
    if (!made) return tl::unexpected<Error>(std::move(made.error()));
    if (*made) *part = new passing_comm{std::move(**made)};
    return {};
  });
}

void passing_free(passing_comm* comm) { delete comm; }

uint32_t passing_rank(const passing_comm* comm) { return get(comm, &Communicator::rank); }
uint32_t passing_size(const passing_comm* comm) { return get(comm, &Communicator::size); }
uint32_t passing_local_rank(const passing_comm* comm) { return get(comm, &Communicator::local_rank); }
uint32_t passing_local_size(const passing_comm* comm) { return get(comm, &Communicator::local_size); }

const char* passing_explain(const passing_comm* comm, size_t count, passing_type type,
                            passing_reduction reduction) {
  thread_local std::string text;
  text.clear();
  static_cast<void>(guarded([&]() -> Expected<void> {
    if (comm == nullptr) return is_null("comm");
    const auto data_type = type_of(type);
    if (!data_type) return tl::unexpected<Error>(data_type.error());
    const auto how = reduction_of(reduction);
    if (!how) return tl::unexpected<Error>(how.error());
    text = comm->communicator.explain(count, *data_type, *how);
    return {};
  }));
  return text.c_str();  // NOLINT(clang-analyzer-cplusplus.InnerPointer): it lives as long as the thread
}

passing_status passing_allocate(passing_comm* comm, size_t bytes, void** data) {
  return guarded([&]() -> Expected<void> {
    if (data == nullptr) return is_null("data");
    *data = nullptr;
    if (comm == nullptr) return is_null("comm");
    auto given = comm->communicator.allocate(bytes);
    if (!given) return tl::unexpected<Error>(std::move(given.error()));
    *data = *given;
    return {};
  });
}

passing_status passing_release(passing_comm* comm, void* data) {
  return guarded([&]() -> Expected<void> {
    if (data == nullptr) return {};
    if (comm == nullptr) return is_null("comm");
    return comm->communicator.free(data);
  });
}

const char* passing_strategy(const passing_comm* comm) {
  return comm == nullptr ? "" : comm->communicator.strategy().c_str();
}

passing_status passing_check(const passing_comm* comm) {
  return guarded([&]() -> Expected<void> {
    if (comm == nullptr) return is_null("comm");
    auto error = comm->communicator.error();
    if (error) return tl::unexpected<Error>(std::move(*error));
    return {};
  });
}

passing_status passing_all_reduce(passing_comm* comm, const void* input, void* output, size_t count,
                                  passing_type type, passing_reduction reduction, double timeout,
                                  passing_op** op) {
  return start_reducing(
      comm, type, reduction, timeout, op,
      [&](Communicator& with, DataType data_type, Reduction how, const CallOptions& options) {
        return with.all_reduce(input, output, count, data_type, how, options);
      });
}

passing_status passing_reduce(passing_comm* comm, const void* input, void* output, size_t count,
                              passing_type type, passing_reduction reduction, uint32_t root, double timeout,
                              passing_op** op) {
  return start_reducing(
      comm, type, reduction, timeout, op,
      [&](Communicator& with, DataType data_type, Reduction how, const CallOptions& options) {
        return with.reduce(input, output, count, data_type, how, root, options);
      });
}

passing_status passing_reduce_scatter(passing_comm* comm, const void* input, void* output, size_t count,
                                      passing_type type, passing_reduction reduction, double timeout,
                                      passing_op** op) {
  return start_reducing(
      comm, type, reduction, timeout, op,
      [&](Communicator& with, DataType data_type, Reduction how, const CallOptions& options) {
        return with.reduce_scatter(input, output, count, data_type, how, options);
      });
}

passing_status passing_all_gather(passing_comm* comm, const void* input, void* output, size_t count,
                                  passing_type type, double timeout, passing_op** op) {
  return start_typed(comm, type, timeout, op,
                     [&](Communicator& with, DataType data_type, const CallOptions& options) {
                       return with.all_gather(input, output, count, data_type, options);
                     });
}

passing_status passing_all_gatherv(passing_comm* comm, const void* input, void* output, const size_t* counts,
                                   passing_type type, double timeout, passing_op** op) {
  return start_typed(
      comm, type, timeout, op,
      [&](Communicator& with, DataType data_type, const CallOptions& options) -> Expected<Operation> {
        if (counts == nullptr) return is_null("counts");
        return with.all_gatherv(input, output, {counts, counts + with.size()}, data_type, options);
      });
}

passing_status passing_gather(passing_comm* comm, const void* input, void* output, size_t count,
                              passing_type type, uint32_t root, double timeout, passing_op** op) {
  return start_typed(comm, type, timeout, op,
                     [&](Communicator& with, DataType data_type, const CallOptions& options) {
                       return with.gather(input, output, count, data_type, root, options);
                     });
}

passing_status passing_scatter(passing_comm* comm, const void* input, void* output, size_t count,
                               passing_type type, uint32_t root, double timeout, passing_op** op) {
  return start_typed(comm, type, timeout, op,
                     [&](Communicator& with, DataType data_type, const CallOptions& options) {
                       return with.scatter(input, output, count, data_type, root, options);
                     });
}

passing_status passing_all_to_all(passing_comm* comm, const void* input, void* output, size_t count,
                                  passing_type type, double timeout, passing_op** op) {
  return start_typed(comm, type, timeout, op,
                     [&](Communicator& with, DataType data_type, const CallOptions& options) {
                       return with.all_to_all(input, output, count, data_type, options);
                     });
}

passing_status passing_all_to_allv(passing_comm* comm, const void* input, const size_t* outgoing,
                                   void* output, const size_t* incoming, passing_type type, double timeout,
                                   passing_op** op) {
  return start_typed(
      comm, type, timeout, op,
      [&](Communicator& with, DataType data_type, const CallOptions& options) -> Expected<Operation> {
        if (outgoing == nullptr) return is_null("outgoing");
        if (incoming == nullptr) return is_null("incoming");
        return with.all_to_allv(input, {outgoing, outgoing + with.size()}, output,
                                {incoming, incoming + with.size()}, data_type, options);
      });
}

passing_status passing_broadcast(passing_comm* comm, void* buffer, size_t count, passing_type type,
                                 uint32_t root, double timeout, passing_op** op) {
  return start_typed(comm, type, timeout, op,
                     [&](Communicator& with, DataType data_type, const CallOptions& options) {
                       return with.broadcast(buffer, count, data_type, root, options);
                     });
}

passing_status passing_barrier(passing_comm* comm, double timeout, passing_op** op) {
  return start(comm, timeout, op, [&](Communicator& with, const CallOptions& options) -> Expected<Operation> {
    return with.barrier(options);
  });
}

passing_status passing_send(passing_comm* comm, const void* data, size_t bytes, uint32_t to, uint32_t tag,
                            double timeout, passing_op** op) {
  return start(comm, timeout, op, [&](Communicator& with, const CallOptions& options) -> Expected<Operation> {
    return with.send(data, bytes, to, tag, options);
  });
}

passing_status passing_recv(passing_comm* comm, void* data, size_t bytes, uint32_t from, uint32_t tag,
                            double timeout, passing_op** op) {
  return start(comm, timeout, op, [&](Communicator& with, const CallOptions& options) -> Expected<Operation> {
    return with.recv(data, bytes, from, tag, options);
  });
}

passing_status passing_recv_from(passing_comm* comm, void* data, size_t bytes, uint32_t from, uint32_t tag,
                                 double timeout, uint32_t* source) {
  if (source != nullptr) *source = PASSING_ANY_SOURCE;
  return guarded([&]() -> Expected<void> {
    if (comm == nullptr) return is_null("comm");
    if (source == nullptr) return is_null("source");
    const auto options = options_of(timeout);
    if (!options) return tl::unexpected<Error>(options.error());
    const Operation begun = comm->communicator.recv(data, bytes, from, tag, *options);
    auto ended = begun.wait();
    if (ended) *source = begun.source();
    return ended;
  });
}

passing_status passing_wait(passing_op* op) {
  const std::unique_ptr<passing_op> owned(op);
  return guarded([&]() -> Expected<void> {
    if (op == nullptr) return is_null("op");
    return op->operation.wait();
  });
}

int passing_test(const passing_op* op) {
  if (op == nullptr) return -1;
  int ended = 1;
  // Should it throw, the caller goes on to wait(), which says why.
  guarded([&]() -> Expected<void> {
    ended = op->operation.test() ? 1 : 0;
    return {};
  });
  return ended;
}

void passing_cancel(passing_op* op) {
  if (op == nullptr) return;
  guarded([&]() -> Expected<void> {
    op->operation.cancel();
    return {};
  });
}

uint32_t passing_source(const passing_op* op) {
  return op == nullptr ? PASSING_ANY_SOURCE : op->operation.source();
}

void passing_op_free(passing_op* op) { delete op; }

}  // extern "C"
