// Hosts of a rack sum before the switch: docs/collectives.md, "Racks"; docs/numerics.md section 7.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <thread>

#include "communicator/order.h"
#include "communicator/reference.h"
#include "strategy/reduce.h"

namespace passing::test {
namespace {

struct RackLayout {
  const char* name;
  Layout hosts;  // of each rank
  Layout racks;  // of each rank
};

void PrintTo(const RackLayout& layout, std::ostream* out) { *out << layout.hosts << " in " << layout.racks; }

class Racks : public testing::TestWithParam<RackLayout> {
 protected:
  static std::uint32_t ranks() { return ranks_of(GetParam().hosts); }
  static std::function<void(Config&)> in_racks(std::function<void(Config&)> change = {}) {
    return placed(GetParam().hosts, [layout = GetParam(), change = std::move(change)](Config& config) {
      config.rack = layout.racks[config.rank];
      config.local_domain = "rack";
      if (change) change(config);
    });
  }
  static std::size_t fewest_ranks() {
    std::size_t fewest = ranks();
    for (const auto& host : groups_of(GetParam().hosts)) fewest = std::min(fewest, host.size());
    return fewest;
  }
  // Hosts in float32, racks of them in float32, then the switch; one rack needs none.
  static Bytes exact(const Tensors& inputs, DataType type, Reduction reduction) {
    Layout rack_of_host;
    for (const auto& host : groups_of(GetParam().hosts)) rack_of_host += GetParam().racks[host[0]];
    const Tensors racks = group_sums(group_sums(inputs, GetParam().hosts), rack_of_host);
    return racks.size() == 1 ? finished(racks[0], type, reduction, ranks())
                             : through_switch(racks, type, reduction, ranks());
  }
};

// Small whole numbers: every order of additions gives the same. Blocks, parts of a leg, and several legs.
TEST_P(Racks, EveryTypeAndReduction) {
  World world("passing", ranks(), in_racks());
  if (HasFatalFailure()) return;
  std::atomic<std::size_t> cases = 0;
  world.run([&](Communicator& comm) {
    for (unsigned t = 1; t <= kDataTypes; ++t) {
      for (unsigned r = 1; r <= kReductions; ++r) {
        const auto type = static_cast<DataType>(t);
        const auto reduction = static_cast<Reduction>(r);
        if (strategy::route(type, reduction) == strategy::Route::none) continue;
        const bool switched = strategy::route(type, reduction) == strategy::Route::network;
        for (const std::size_t count : {0, 1, 2113, 20'011, 300'001}) {
          if (!switched && count != 20'011) continue;
          constexpr std::size_t kRepeats = 23 * 5 * 2;
          const auto input = inputs(type, reduction, comm.rank(), std::min(count, kRepeats));
          Bytes data(count * size_of(type));
          for (std::size_t at = 0; at < data.size(); at += input.size())
            std::memcpy(data.data() + at, input.data(), std::min(input.size(), data.size() - at));
          const auto ended = comm.all_reduce(data.data(), data.data(), count, type, reduction).wait();
          ASSERT_TRUE(ended) << ended.error().message;
          Bytes right(input.size());
          for (std::size_t i = 0; i < std::min(count, kRepeats); ++i)
            store_reduction(type, reduction, comm.size(), right.data(), i, i);
          for (std::size_t at = 0; at < data.size(); at += right.size()) {
            ASSERT_EQ(std::memcmp(data.data() + at, right.data(), std::min(right.size(), data.size() - at)),
                      0)
                << to_string(type) << " " << to_string(reduction) << " x " << count << ", from "
                << at / size_of(type);
          }
          ++cases;
        }
      }
    }
  });
  // What the switch sums has all sizes: 4 types, sums and averages.
  EXPECT_EQ(cases, ranks() * (4 * 5 + 8 * 8 + 7 + 4 * 2 * 4));
}

// The bits are those of numerics.md: not of lanes, slots, buffers or run.
TEST_P(Racks, EveryBit) {
  struct Way {
    std::uint32_t lanes;
    std::uint32_t slots;
    bool shared;
  };
  std::vector<Way> ways = {{0, 0, false}, {1, 16, true}};
  if (fewest_ranks() > 1) ways.push_back({2, 4, true});
  std::map<DataType, std::vector<Bytes>> given;
  std::map<DataType, Tensors> values;
  for (const DataType type : {DataType::float32, DataType::float16, DataType::bfloat16}) {
    for (std::uint32_t r = 0; r < ranks(); ++r) {
      // Two stripes and several legs; of narrow types, a leg and a bit.
      given[type].push_back(random_tensor(type, type == DataType::float32 ? 600'001 : 150'001, r));
      values[type].push_back(widened(type, given[type][r]));
    }
  }
  std::size_t telling = 0;
  for (const Way& way : ways) {
    World world("passing", ranks(), in_racks([&](Config& config) {
                  config.lanes = way.lanes;
                  config.slots = way.slots;
                }));
    if (HasFatalFailure()) return;
    for (const auto& [type, inputs] : values) {
      for (const Reduction reduction : {Reduction::sum, Reduction::average}) {
        const std::size_t count = inputs[0].size();
        const Bytes right = exact(inputs, type, reduction);
        if (reduction == Reduction::sum &&
            right != through_switch(group_sums(inputs, GetParam().hosts), type, reduction, ranks()))
          ++telling;
        world.run([&, what = type](Communicator& comm) {
          Buffers buffers(comm, way.shared && comm.rank() % 3 != 1);
          std::byte* input = buffers.take(right.size());
          std::byte* output = way.lanes == 1 ? input : buffers.take(right.size());
          ASSERT_TRUE(input != nullptr && output != nullptr);
          std::memcpy(input, given[what][comm.rank()].data(), right.size());
          const auto ended = comm.all_reduce(input, output, count, what, reduction).wait();
          ASSERT_TRUE(ended) << ended.error().message;
          for (std::size_t i = 0; i < right.size(); ++i) {
            ASSERT_EQ(output[i], right[i]) << to_string(what) << " " << to_string(reduction) << ", element "
                                           << i / size_of(what) << " with " << way.lanes << " lanes";
          }
        });
        if (HasFatalFailure()) return;
      }
    }
  }
  // That the sums of racks are not those of hosts.
  const bool differs = groups_of(GetParam().racks).size() < groups_of(GetParam().hosts).size();
  EXPECT_EQ(telling > 0, differs);
}

// The switch's way of auto is by racks too, and all ranks know it.
TEST_P(Racks, OfAuto) {
  constexpr std::size_t kCount = 300'001;
  World world("auto", ranks(), in_racks());
  if (HasFatalFailure()) return;
  const std::string why = world.at(0).explain(kCount, DataType::float32);
  EXPECT_NE(why.find("(sum): passing; "), std::string::npos) << why;
  EXPECT_NE(why.find(" racks"), std::string::npos) << why;
  Tensors inputs;
  for (std::uint32_t r = 0; r < ranks(); ++r)
    inputs.push_back(widened(DataType::float32, random_tensor(DataType::float32, kCount, r)));
  const Bytes right = exact(inputs, DataType::float32, Reduction::sum);
  world.run([&](Communicator& comm) {
    EXPECT_EQ(comm.explain(kCount, DataType::float32), why);
    Tensor data = inputs[comm.rank()];
    const auto ended = comm.all_reduce(data.data(), data.data(), kCount, DataType::float32).wait();
    ASSERT_TRUE(ended) << ended.error().message;
    EXPECT_EQ(std::memcmp(data.data(), right.data(), right.size()), 0);
  });
}

// Several at once: legs of one may not overtake those of another on their way to the switch. Small ones
// travel without being asked for, so they come first to a rank that is late.
TEST_P(Racks, SeveralAtOnce) {
  World world("passing", ranks(), in_racks());
  if (HasFatalFailure()) return;
  world.run([](Communicator& comm) {
    for (std::uint32_t round = 0; round < 6; ++round) {
      std::vector<std::vector<float>> data;
      for (const std::size_t count : {250'007, 5, 100'003, 1000}) data.emplace_back(count);
      for (auto& each : data) fill(DataType::float32, each.data(), each.size(), comm.rank());
      if (comm.rank() == round % comm.size()) std::this_thread::sleep_for(std::chrono::milliseconds(3));
      std::vector<Operation> all;
      for (auto& each : data)
        all.push_back(comm.all_reduce(each.data(), each.data(), each.size(), DataType::float32));
      for (std::size_t i = 0; i < all.size(); ++i) {
        const auto ended = all[i].wait();
        ASSERT_TRUE(ended) << ended.error().message;
        ASSERT_EQ(first_wrong(DataType::float32, data[i].data(), data[i].size(), comm.size(), false),
                  data[i].size())
            << i;
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, Racks,
    testing::Values(RackLayout{"TwoOfTwo", "abcd", "xxyy"}, RackLayout{"OneOnly", "abc", "xxx"},
                    RackLayout{"SeveralRanks", "aabbccdd", "xxxxyyyy"},
                    RackLayout{"Uneven", "aabccd", "xxxxxy"}, RackLayout{"OneHostEach", "abc", "xyz"},
                    // Three hosts beside two and one, one of them of three ranks; neither in order.
                    RackLayout{"Mixed", "fcabacdea", "yzxyxzxyx"}),
    [](const auto& each) { return each.param.name; });

TEST(RackLabels, MustBeThereAndAgree) {
  Config config;
  config.size = 2;
  config.directory = "/tmp";
  config.local_domain = "rack";
  EXPECT_EQ(config.validate().error().message,
            "local_domain is 'rack' but rack is empty: set PASSING_RACK to the label of this host's rack");
  config.local_domain = "row";
  EXPECT_EQ(config.validate().error().message,
            "local_domain is 'row': must be host or rack (PASSING_LOCAL_DOMAIN)");
  Table table(2);
  parallel(2, [&](std::uint32_t rank) {
    Config own;
    own.rank = rank;
    own.size = 2;
    own.strategy = "passing";
    own.host = "the one";
    own.local_domain = "rack";
    own.rack = rank == 0 ? "left" : "right";
    own.exchange = table.exchange(rank);
    const auto made = Communicator::create(own);
    ASSERT_FALSE(made);
    EXPECT_NE(made.error().message.find("share a host, but their racks are 'left' and 'right'"),
              std::string::npos)
        << made.error().message;
  });
}

}  // namespace
}  // namespace passing::test
