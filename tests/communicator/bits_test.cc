// docs/numerics.md: the bits of `passing` depend on the inputs and on who shares a host, and on nothing else.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>

#include "communicator/order.h"

namespace passing::test {
namespace {

// In blocks: less than one, one and a bit, many, with something to do for every lane.
constexpr std::size_t kSizes[] = {1, 2113, 300'001};

// The inputs of a rank, made once: shorter ones are their beginning.
const std::byte* values_of(DataType type, std::uint32_t rank) {
  static std::mutex mutex;
  static std::map<std::pair<DataType, std::uint32_t>, Bytes> made;
  const std::lock_guard lock(mutex);
  Bytes& data = made[{type, rank}];
  if (data.empty()) data = random_tensor(type, kSizes[2], rank);
  return data.data();
}

/// Where a rank has its buffers.
enum class Memory { ordinary, shared, mixed };

struct Way {
  Memory memory = Memory::ordinary;
  bool in_place = false;
};

// All results of one rank, one after the other.
void reduce_all(Communicator& comm, Way way, Bytes& results) {
  const bool shared = way.memory == Memory::shared || (way.memory == Memory::mixed && comm.rank() % 2 == 1);
  for (const DataType type : {DataType::float32, DataType::float16}) {
    for (const std::size_t count : kSizes) {
      for (const Reduction reduction : {Reduction::sum, Reduction::average}) {
        const std::size_t bytes = count * size_of(type);
        Buffers buffers(comm, shared);
        std::byte* input = buffers.take(bytes);
        std::byte* output = way.in_place ? input : buffers.take(bytes);
        ASSERT_TRUE(input != nullptr && output != nullptr);
        std::memcpy(input, values_of(type, comm.rank()), bytes);
        const auto ended = comm.all_reduce(input, output, count, type, reduction).wait();
        ASSERT_TRUE(ended) << ended.error().message;
        results.insert(results.end(), output, output + bytes);
      }
    }
  }
}

// The same on all ranks.
Bytes results_of(World& world, Way way = {}) {
  std::vector<Bytes> all(world.size());
  world.run([&](Communicator& comm) { reduce_all(comm, way, all[comm.rank()]); });
  for (std::uint32_t r = 1; r < world.size(); ++r) EXPECT_TRUE(all[r] == all[0]) << "rank " << r;
  return all[0];
}

Bytes results_of(const std::string& strategy, const Layout& layout,
                 const std::function<void(Config&)>& change = {}) {
  World world(strategy, ranks_of(layout), placed(layout, change));
  return results_of(world);
}

TEST(Bits, DoNotDependOnSettings) {
  const Bytes usual = results_of("passing", "aaabbb");
  ASSERT_FALSE(usual.empty());
  // All that matter together; the last two are the least that three ranks can do with, and the default.
  for (const std::uint32_t lanes : {1U, 2U, 3U}) {
    for (const std::uint32_t slots : {4U, 16U, 64U}) {
      const std::size_t shared_bytes = (lanes + slots) % 2 == 0 ? 425'984 : 64 << 20;
      const auto changed = results_of("passing", "aaabbb", [&](Config& config) {
        config.lanes = lanes;
        config.slots = slots;
        config.shared_bytes = shared_bytes;
      });
      EXPECT_TRUE(changed == usual) << lanes << " lanes, " << slots << " slots, " << shared_bytes << " bytes";
    }
  }
}

// Of three hosts it takes the switch or, for little, a ring: one stripe each, however many lanes there are.
TEST(Bits, OfAutoDoNotDependOnSettings) {
  const Bytes usual = results_of("auto", "aabbcc");
  ASSERT_FALSE(usual.empty());
  for (const std::uint32_t lanes : {1U, 2U}) {
    for (const std::uint32_t slots : {4U, 64U}) {
      const auto changed = results_of("auto", "aabbcc", [&](Config& config) {
        config.lanes = lanes;
        config.slots = slots;
      });
      EXPECT_TRUE(changed == usual) << lanes << " lanes, " << slots << " slots";
    }
  }
}

TEST(Bits, DoNotDependOnBuffersOrRun) {
  for (const auto& [strategy, layout] :
       {std::pair("passing", Layout("aabbb")), std::pair("auto", Layout("aabbc"))}) {
    World world(strategy, ranks_of(layout), placed(layout));
    const Bytes first = results_of(world);
    ASSERT_FALSE(first.empty());
    for (const Memory memory : {Memory::ordinary, Memory::shared, Memory::mixed}) {
      for (const bool in_place : {false, true}) {
        EXPECT_TRUE(results_of(world, {memory, in_place}) == first)
            << strategy << " " << static_cast<int>(memory) << (in_place ? " in place" : "");
      }
    }
  }
}

TEST(Bits, OfOneRankPerHostAreThoseOfTheSwitch) {
  const Bytes network = results_of("in_network", "abcd");
  ASSERT_FALSE(network.empty());
  EXPECT_TRUE(results_of("passing", "abcd") == network);
}

// Section 7: in 16 bits auto's ring of hosts is the plain ring, where every rank has a host of its own.
TEST(Bits, OfAutoIn16BitsAreThoseOfTheRing) {
  constexpr std::size_t kCount = 300'001;
  std::map<std::string, Bytes> results;
  for (const std::string strategy : {"auto", "ring"}) {
    World world(strategy, 4, placed("abcd", [](Config& config) { config.link_rate = 0.2; }));
    std::vector<Bytes> all(world.size());
    world.run([&](Communicator& comm) {
      for (const auto& [type, reduction] :
           {std::pair(DataType::float16, Reduction::sum), std::pair(DataType::bfloat16, Reduction::sum),
            std::pair(DataType::bfloat16, Reduction::average)}) {
        Bytes data(values_of(type, comm.rank()), values_of(type, comm.rank()) + kCount * size_of(type));
        const auto ended = comm.all_reduce(data.data(), data.data(), kCount, type, reduction).wait();
        ASSERT_TRUE(ended) << ended.error().message;
        all[comm.rank()].insert(all[comm.rank()].end(), data.begin(), data.end());
      }
    });
    for (const Bytes& each : all) EXPECT_TRUE(each == all[0]);
    if (strategy == "auto") {
      EXPECT_NE(world.at(0).explain(kCount, DataType::bfloat16).find(": a ring of hosts in 16 bits"),
                std::string::npos);
    }
    results[strategy] = all[0];
  }
  EXPECT_TRUE(results["auto"] == results["ring"]);
}

// Inf and NaN in exactly the elements concerned, whether a host or the switch brings them together.
TEST(Bits, OfWhatIsNotFinite) {
  constexpr std::size_t kCount = 200'003;
  constexpr float kInf = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  struct Special {
    std::size_t at;
    std::vector<std::pair<std::uint32_t, float>> values;  // by rank
    float result;
  };
  const std::vector<Special> specials = {
      {0, {{1, kNan}}, kNan},
      {2111, {{0, kInf}}, kInf},
      {2112, {{3, -kInf}}, -kInf},
      {2113, {{0, kInf}, {1, -kInf}}, kNan},    // in one host
      {70'000, {{1, kInf}, {2, -kInf}}, kNan},  // of two
      {99'999, {{0, kInf}, {2, kInf}}, kInf},
      {100'000, {{0, -kInf}, {3, kNan}}, kNan},
      {kCount - 1, {{2, -kInf}, {3, -kInf}}, -kInf},
  };
  for (const auto& [strategy, layout] :
       {std::pair("passing", Layout("aabb")), std::pair("auto", Layout("aabc"))}) {
    World world(strategy, 4, placed(layout));
    EXPECT_NE(world.at(0).explain(kCount, DataType::float32).find(": passing"), std::string::npos);
    world.run([&](Communicator& comm) {
      for (const DataType type : {DataType::float32, DataType::float16, DataType::bfloat16}) {
        for (const Reduction reduction : {Reduction::sum, Reduction::average}) {
          Bytes data(kCount * size_of(type));
          fill(type, data.data(), kCount, comm.rank());
          Bytes expected = data;
          const auto put_special = [&](Bytes& where, std::size_t at, float value) {
            if (type == DataType::float32) return put(type, where.data(), at, value);
            const int infinity = type == DataType::float16 ? 0x7C00 : 0x7F80;
            const int nan = type == DataType::float16 ? 0x7E00 : 0x7FC0;
            const auto bits = static_cast<std::uint16_t>(std::isnan(value) ? nan
                                                         : value > 0       ? infinity
                                                                           : infinity | 0x8000);
            std::memcpy(where.data() + 2 * at, &bits, 2);
          };
          for (std::size_t i = 0; i < kCount; ++i) {
            double sum = 0;
            for (std::uint32_t r = 0; r < comm.size(); ++r) sum += value_of(r, i);
            put(type, expected.data(), i, reduction == Reduction::sum ? sum : sum / comm.size());
          }
          for (const Special& each : specials) {
            put_special(expected, each.at, each.result);
            for (const auto& [rank, value] : each.values) {
              if (rank == comm.rank()) put_special(data, each.at, value);
            }
          }
          const auto ended = comm.all_reduce(data.data(), data.data(), kCount, type, reduction).wait();
          ASSERT_TRUE(ended) << ended.error().message;
          for (std::size_t i = 0; i < kCount; ++i) {
            const std::size_t width = size_of(type);
            ASSERT_EQ(std::memcmp(data.data() + i * width, expected.data() + i * width, width), 0)
                << to_string(type) << " " << to_string(reduction) << ", element " << i;
          }
        }
      }
    });
  }
}

}  // namespace
}  // namespace passing::test
