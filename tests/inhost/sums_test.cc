// docs/numerics.md section 7, in-host: the bits are those of the plainest loop, however the tensor is cut.
#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>

#include "inhost/company.h"
#include "inhost/operation.h"
#include "inhost/reference.h"

namespace passing::test {
namespace {

using inhost::Host;

constexpr Duration kEnough = 60 * kSecond;

std::vector<Bytes> inputs_of(std::size_t ranks, DataType type, std::size_t count, std::uint64_t seed) {
  std::vector<Bytes> inputs;
  for (std::size_t r = 0; r < ranks; ++r) inputs.push_back(random_input(type, count, seed * 100 + r));
  return inputs;
}

/// Where a rank's buffers are.
enum class Buffers { apart, in_place, allocated, allocated_in_place, allocated_input, allocated_output };
constexpr Buffers kBuffers[] = {Buffers::apart,           Buffers::in_place,
                                Buffers::allocated,       Buffers::allocated_in_place,
                                Buffers::allocated_input, Buffers::allocated_output};

/// One all-reduce of one rank; what came out.
Bytes all_reduce(Host& host, Buffers buffers, const Bytes& input, inhost::Call call) {
  Bytes output(input.size(), std::byte{0xEE});
  void* shared_in = nullptr;
  void* shared_out = nullptr;
  const auto allocate = [&] {
    auto memory = host.allocate(input.size());
    EXPECT_TRUE(memory) << memory.error().message;
    return *memory;
  };
  Bytes own = input;
  call.input = own.data();
  call.output = output.data();
  if (buffers == Buffers::in_place) call.output = own.data();
  if (buffers == Buffers::allocated || buffers == Buffers::allocated_in_place ||
      buffers == Buffers::allocated_input) {
    shared_in = allocate();
    if (!input.empty()) std::memcpy(shared_in, input.data(), input.size());
    call.input = shared_in;
  }
  if (buffers == Buffers::allocated || buffers == Buffers::allocated_output) shared_out = allocate();
  if (shared_out != nullptr) call.output = shared_out;
  if (buffers == Buffers::allocated_in_place) call.output = shared_in;
  call.deadline = inhost::now() + kEnough;
  const auto ended = host.all_reduce(call);
  EXPECT_TRUE(ended) << ended.error().message;
  if (!input.empty()) std::memcpy(output.data(), call.output, output.size());
  host.free(shared_in);
  host.free(shared_out);
  return output;
}

class Sums : public testing::TestWithParam<std::size_t> {};

TEST_P(Sums, EveryTypeAndReduction) {
  const std::size_t ranks = GetParam();
  struct Case {
    DataType type;
    Reduction reduction;
    std::size_t count;
    std::vector<Bytes> inputs;
    Bytes expected;
  };
  std::vector<Case> cases;
  std::uint64_t seed = 1;
  for (const DataType type : kAllTypes) {
    for (std::size_t r = 1; r <= kReductions; ++r) {
      const auto reduction = static_cast<Reduction>(r);
      if (!inhost::Sum::possible(type, reduction)) continue;
      for (const std::size_t count : {std::size_t{1001}, std::size_t{2113 * 5}}) {
        auto inputs = inputs_of(ranks, type, count, ++seed);
        Bytes expected = reference(type, reduction, inputs);
        cases.push_back({type, reduction, count, std::move(inputs), std::move(expected)});
      }
    }
  }
  in_threads(ranks, {}, [&](Host& host) {
    std::size_t n = 0;
    for (const Case& each : cases) {
      // Another kind of buffer on every rank.
      const Buffers buffers = kBuffers[(n++ + host.index()) % std::size(kBuffers)];
      const Bytes got = all_reduce(host, buffers, each.inputs[host.index()],
                                   {.count = each.count, .type = each.type, .reduction = each.reduction});
      ASSERT_TRUE(got == each.expected)
          << to_string(each.reduction) << " of " << each.count << " " << to_string(each.type) << ", rank "
          << host.index() << ", buffers " << static_cast<int>(buffers);
    }
  });
}

TEST_P(Sums, SizesAndCuts) {
  const std::size_t ranks = GetParam();
  const std::size_t least = inhost::Settings{}.for_ranks(ranks)->slot_bytes;
  for (const std::size_t slot : {std::size_t{0}, (ranks * 2112 * 8 + 4095) / 4096 * 4096, 3 * least}) {
    in_threads(ranks, {.shared_bytes = 32 << 20, .slot_bytes = slot}, [&](Host& host) {
      for (const std::size_t count :
           {0, 1, 2, 7, 2111, 2112, 2113, 4095, 4096, 4097, 10'000, 100'003, 400'000}) {
        const auto inputs = inputs_of(ranks, DataType::float32, count, 1000 + count);
        const Bytes expected = reference(DataType::float32, Reduction::sum, inputs);
        for (const std::uint32_t owners : {0U, 1U, 2U}) {
          for (const Buffers buffers : kBuffers) {
            const Bytes got =
                all_reduce(host, buffers, inputs[host.index()], {.count = count, .owners = owners});
            ASSERT_TRUE(got == expected) << count << " elements, " << owners << " owners, slots of " << slot
                                         << ", rank " << host.index();
          }
          if (ranks > 8) break;
        }
      }
    });
  }
}

// The switch between the sum and the result: sums come out in float32, and results come back late, in parts.
TEST_P(Sums, Relayed) {
  const std::size_t ranks = GetParam();
  for (const DataType type : {DataType::float32, DataType::bfloat16}) {
    constexpr std::size_t kCount = 300'001;
    const auto inputs = inputs_of(ranks, type, kCount, 77);
    const Bytes expected = reference(type, Reduction::sum, inputs);
    in_threads(ranks, {}, [&](Host& host) {
      for (int round = 0; round < 3; ++round) {
        Bytes data = inputs[host.index()];
        const std::uint32_t owners = round == 1 ? 1 : 0;
        inhost::Operation operation(
            host,
            {.input = data.data(), .output = data.data(), .count = kCount, .type = type, .owners = owners},
            true);
        inhost::Sum narrow(DataType::float32, Reduction::sum);
        Bytes results;  // on their way
        std::size_t published = 0;
        std::mt19937 random(static_cast<unsigned>(host.index()));
        const std::size_t width = size_of(type);
        std::vector<float> sum(2112);
        while (!operation.done()) {
          ASSERT_FALSE(host.trouble()) << host.trouble()->message;
          bool moved = operation.give();
          if (const auto ready = operation.ready(); ready.count > 0) {
            const std::size_t count = std::min<std::size_t>(2112, ready.count);
            EXPECT_TRUE(operation.sum(count, sum.data()));
            const std::size_t before = results.size();
            results.resize(before + count * width);
            for (std::size_t i = 0; i < count; ++i) put(type, results.data() + before, i, sum[i]);
            moved = true;
          }
          const std::size_t waiting = (results.size() - published) / width;
          if (waiting > 0 && (random() % 4 == 0 || !moved)) {
            const std::size_t count = std::min<std::size_t>(waiting, 1 + random() % 5000);
            const std::size_t through = operation.publish(results.data() + published, count);
            moved = through > 0 || moved;
            published += through * width;
          }
          moved = operation.take() || moved;
          if (!moved) host.wait(operation.awaited(true, published < results.size()), inhost::now() + kEnough);
        }
        ASSERT_TRUE(data == expected);
      }
    });
  }
}

// A caller with a loop of its own: it sleeps in poll, and is woken there.
TEST_P(Sums, InPoll) {
  const std::size_t ranks = GetParam();
  constexpr std::size_t kCount = 500'000;
  const auto inputs = inputs_of(ranks, DataType::float32, kCount, 5);
  const Bytes expected = reference(DataType::float32, Reduction::sum, inputs);
  in_threads(ranks, {}, [&](Host& host) {
    Bytes data = inputs[host.index()];
    inhost::Operation operation(host, {.input = data.data(), .output = data.data(), .count = kCount});
    while (!operation.done()) {
      if (operation.progress()) continue;
      if (!host.sleep(operation.awaited())) continue;
      pollfd source{host.descriptor(), POLLIN, 0};
      ASSERT_EQ(poll(&source, 1, 20'000), 1);
      host.look();
      ASSERT_FALSE(host.trouble());
    }
    ASSERT_TRUE(data == expected);
  });
}

// The stream of pieces runs on: a later operation begins before an earlier one is through.
TEST_P(Sums, SeveralUnderWay) {
  const std::size_t ranks = GetParam();
  const std::size_t counts[] = {300'000, 10, 0, 9000, 400'000, 1};
  std::vector<std::vector<Bytes>> inputs;
  std::vector<Bytes> expected;
  for (const std::size_t count : counts) {
    inputs.push_back(inputs_of(ranks, DataType::float32, count, count));
    expected.push_back(reference(DataType::float32, Reduction::sum, inputs.back()));
  }
  in_threads(ranks, {}, [&](Host& host) {
    std::vector<Bytes> data;
    std::vector<std::unique_ptr<inhost::Operation>> operations;
    for (std::size_t i = 0; i < std::size(counts); ++i) {
      data.push_back(inputs[i][host.index()]);
      operations.push_back(
          std::make_unique<inhost::Operation>(host, inhost::Call{.input = data[i].data(),
                                                                 .output = data[i].data(),
                                                                 .count = counts[i],
                                                                 .owners = i % 3 == 0 ? 1U : 0U}));
    }
    for (bool done = false; !done;) {
      ASSERT_FALSE(host.trouble()) << host.trouble()->message;
      bool moved = false;
      done = true;
      inhost::Awaited awaited;
      for (auto& operation : operations) {
        moved = operation->progress() || moved;
        done = done && operation->done();
        const auto wanted = operation->awaited();
        for (std::size_t s = 0; s < inhost::kStages; ++s)
          awaited.least[s] = std::min(awaited.least[s], wanted.least[s]);
      }
      if (!moved && !done) host.wait(awaited, inhost::now() + kEnough);
    }
    for (std::size_t i = 0; i < std::size(counts); ++i) ASSERT_TRUE(data[i] == expected[i]) << counts[i];
  });
}

TEST_P(Sums, InProcesses) {
  const std::size_t ranks = GetParam();
  const auto inputs = inputs_of(ranks, DataType::float32, 700'000, 9);
  const Bytes expected = reference(DataType::float32, Reduction::sum, inputs);
  Processes processes(ranks, [&](Host& host) -> Expected<void> {
    for (int i = 0; i < 20; ++i) {
      const std::size_t count = i % 2 == 0 ? 700'000 : 1000;
      Bytes input(inputs[host.index()].begin(),
                  inputs[host.index()].begin() + 4 * static_cast<std::ptrdiff_t>(count));
      const Bytes got = all_reduce(host, kBuffers[i % std::size(kBuffers)], input, {.count = count});
      if (!std::equal(got.begin(), got.end(), expected.begin()))
        return fail(ErrorCode::disagreement, "a wrong sum");
    }
    return {};
  });
  for (std::size_t r = 0; r < ranks; ++r) {
    const Report report = processes.join(r);
    EXPECT_TRUE(report.good) << r << ": " << report.message;
  }
}

// Operations of random sizes, one behind the other, from ranks that dawdle.
TEST_P(Sums, AtRandom) {
  const std::size_t ranks = GetParam();
  in_threads(ranks, {.slot_bytes = (ranks * 2112 * 8 + 4095) / 4096 * 4096}, [&](Host& host) {
    std::mt19937 together(3);
    std::mt19937 alone(static_cast<unsigned>(host.index()));
    for (int i = 0; i < 150; ++i) {
      const std::size_t count = together() % (together() % 3 == 0 ? 200'000 : 6000);
      std::vector<float> data(count);
      for (std::size_t k = 0; k < count; ++k)
        data[k] = static_cast<float>(host.index() + static_cast<std::size_t>(i) + k % 1000);
      if (alone() % 8 == 0) std::this_thread::sleep_for(std::chrono::microseconds(alone() % 2000));
      const auto ended = host.all_reduce(
          {.input = data.data(), .output = data.data(), .count = count, .deadline = inhost::now() + kEnough});
      ASSERT_TRUE(ended) << ended.error().message;
      const std::size_t n = host.size();
      for (std::size_t k = 0; k < count; ++k)
        ASSERT_EQ(data[k],
                  static_cast<float>(n * (n - 1) / 2 + n * (static_cast<std::size_t>(i) + k % 1000)));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Sums, testing::Values(1, 2, 3, 4, 5, 8, 13, 16),
                         testing::PrintToStringParamName());

TEST(SumsOfOneHost, LargerThanTheSharedMemory) {
  in_threads(2, {.shared_bytes = 1 << 20}, [](Host& host) {
    std::vector<float> data(20'000'000, 1.5F);
    const auto ended = host.all_reduce({.input = data.data(),
                                        .output = data.data(),
                                        .count = data.size(),
                                        .deadline = inhost::now() + kEnough});
    ASSERT_TRUE(ended) << ended.error().message;
    ASSERT_EQ(std::count(data.begin(), data.end(), 3.0F), static_cast<std::ptrdiff_t>(data.size()));
  });
}

}  // namespace
}  // namespace passing::test
