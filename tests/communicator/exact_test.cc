// docs/numerics.md sections 6 and 7: hosts of several ranks, random floats, every bit against a second
// implementation of the contract.
#include <gtest/gtest.h>

#include <set>

#include "communicator/order.h"

namespace passing::test {
namespace {

constexpr DataType kTypes[] = {DataType::float32, DataType::float16, DataType::bfloat16};

struct Case {
  const char* name;
  std::string strategy;
  Layout layout;
  std::uint32_t lanes = 0;
  bool switched = true;
};

void PrintTo(const Case& each, std::ostream* out) { *out << each.name; }

class Exact : public testing::TestWithParam<Case> {};

/// By what explain() says, or by the strategy.
std::string way_of(const Communicator& comm, std::size_t count, DataType type, Reduction reduction) {
  if (comm.strategy() != "auto") return comm.strategy();
  const std::string text = comm.explain(count, type, reduction);
  const std::size_t begin = text.find(": ") + 2;
  return text.substr(begin, text.find(';') - begin);
}

Bytes expected(const std::string& way, const Case& each, const Tensors& inputs, DataType type,
               Reduction reduction) {
  const std::size_t ranks = each.layout.size();
  const Tensors hosts = group_sums(inputs, each.layout);
  if (hosts.size() == 1) return finished(hosts[0], type, reduction, ranks);
  if (way == "passing") return through_switch(hosts, type, reduction, ranks);
  if (way == "ps_hierarchical") return finished(in_order(hosts, type), type, reduction, ranks);
  if (way == "halving and doubling among hosts") return finished(doubled(hosts), type, reduction, ranks);
  const bool narrow = way == "a ring of hosts in 16 bits";
  EXPECT_TRUE(narrow || way == "ring_hierarchical") << way;
  std::size_t fewest = ranks;
  std::size_t most = 0;
  for (const auto& host : groups_of(each.layout)) {
    fewest = std::min(fewest, host.size());
    most = std::max(most, host.size());
  }
  const std::size_t lanes = each.lanes != 0 ? each.lanes : std::min<std::size_t>(fewest, 4);
  return finished(ring_of_hosts(hosts, size_of(type), lanes, most, narrow ? type : DataType::float32), type,
                  reduction, ranks);
}

// One element alone, in and around a block, and several legs of several stripes.
TEST_P(Exact, EveryBit) {
  const Case& each = GetParam();
  World world(each.strategy, ranks_of(each.layout), placed(each.layout, [&](Config& config) {
                config.lanes = each.lanes;
                if (!each.switched) config.controller = "";
              }));
  if (HasFatalFailure()) return;
  std::set<std::string> ways;
  std::size_t telling = 0;
  for (const DataType type : kTypes) {
    // So much that a ring has several legs and stripes; the switch has them earlier.
    const bool long_legs = each.strategy == "ring_hierarchical" || !each.switched;
    const std::size_t most = long_legs && type == DataType::float32 ? 600'001 : 200'003;
    for (const std::size_t count : {std::size_t{1}, std::size_t{2113}, std::size_t{40'000}, most}) {
      std::vector<Bytes> given;
      Tensors inputs;
      for (std::uint32_t r = 0; r < world.size(); ++r) {
        given.push_back(random_tensor(type, count, r));
        inputs.push_back(widened(type, given.back()));
      }
      // That the values tell orders apart.
      const Bytes plain = finished(in_order(inputs), type, Reduction::sum, world.size());
      for (const Reduction reduction : {Reduction::sum, Reduction::average}) {
        const std::string way = way_of(world.at(0), count, type, reduction);
        ways.insert(way);
        const Bytes right = expected(way, each, inputs, type, reduction);
        if (reduction == Reduction::sum && plain != right) ++telling;
        world.run([&](Communicator& comm) {
          const Bytes& input = given[comm.rank()];
          for (const bool in_place : {false, true}) {
            Bytes output = in_place ? input : Bytes(input.size());
            const auto ended = comm.all_reduce(in_place ? output.data() : input.data(), output.data(), count,
                                               type, reduction)
                                   .wait();
            ASSERT_TRUE(ended) << ended.error().message;
            const auto wrong = std::mismatch(output.begin(), output.end(), right.begin()).first;
            ASSERT_TRUE(wrong == output.end())
                << to_string(type) << " " << to_string(reduction) << " x " << count << " by " << way
                << ": element " << static_cast<std::size_t>(wrong - output.begin()) / size_of(type);
          }
        });
        if (HasFatalFailure()) return;
      }
    }
  }
  if (ranks_of(each.layout) > groups_of(each.layout).size() && groups_of(each.layout).size() > 1) {
    EXPECT_GE(telling, 6U);  // single elements need not, and narrow floats hide much
  }
  // A way that is never taken is not tested.
  if (each.strategy == "auto" && groups_of(each.layout).size() > 1) {
    EXPECT_TRUE(ways.contains("a ring of hosts in 16 bits"));
  }
  std::string all;
  for (const std::string& way : ways) all += way + ", ";
  std::printf("%s went by %s\n", each.name, all.c_str());
}

INSTANTIATE_TEST_SUITE_P(
    Strategies, Exact,
    testing::Values(Case{"Passing", "passing", "aabbb"}, Case{"PassingMixed", "passing", "babcacb", 2},
                    Case{"PassingOneHost", "passing", "aaaaa"}, Case{"Ring", "ring_hierarchical", "aabbcc"},
                    Case{"RingOfOneLane", "ring_hierarchical", "aabbcc", 1},
                    Case{"RingMixed", "ring_hierarchical", "cabcabbc"},
                    Case{"RingOfOneEach", "ring_hierarchical", "abcde"},
                    Case{"Servers", "ps_hierarchical", "aabbb"},
                    Case{"ServersMixed", "ps_hierarchical", "baabcb"}, Case{"AutoOfThree", "auto", "aabbcc"},
                    Case{"AutoOfFour", "auto", "aabbccd"}, Case{"AutoOfSix", "auto", "abcdefaf", 0, false},
                    Case{"AutoWithoutASwitch", "auto", "ddcbabcd", 0, false},
                    Case{"AutoOfOne", "auto", "aaa"}),
    [](const auto& each) { return each.param.name; });

// A way that no layout takes would not be tested.
TEST(Ways, OfAuto) {
  std::set<std::string> ways;
  for (const Layout& layout : {Layout("aabbcc"), Layout("aabbccd"), Layout("aaa")}) {
    World world("auto", ranks_of(layout), placed(layout));
    for (const std::size_t count : {1UL, 600'001UL}) {
      ways.insert(way_of(world.at(0), count, DataType::float32, Reduction::sum));
      // All ranks say the same.
      for (const DataType type : {DataType::float32, DataType::bfloat16, DataType::int64}) {
        for (const Reduction reduction : {Reduction::sum, Reduction::max}) {
          const std::string first = world.at(0).explain(count, type, reduction);
          for (std::uint32_t r = 1; r < world.size(); ++r)
            EXPECT_EQ(world.at(r).explain(count, type, reduction), first) << "rank " << r;
        }
      }
    }
  }
  EXPECT_EQ(ways, (std::set<std::string>{"in the host", "passing", "ring_hierarchical",
                                         "halving and doubling among hosts"}));
}

// Section 6: half a unit of the scale for each host, a rounding for each addition in a host, one to the type.
TEST(ErrorBound, WithSumsInTheHost) {
  const Layout layout = "aaabbc";
  constexpr std::size_t kCount = 30'000;
  for (const DataType type : kTypes) {
    Tensors inputs;
    for (std::uint32_t r = 0; r < layout.size(); ++r)
      inputs.push_back(widened(type, random_tensor(type, kCount, r, 23)));
    const Tensors hosts = group_sums(inputs, layout);
    std::vector<int> scales;
    for (std::size_t begin = 0; begin < kCount; begin += kBlockOf) scales.push_back(scale_of(hosts, begin));
    const auto groups = groups_of(layout);
    World world("passing", ranks_of(layout), placed(layout));
    world.run([&](Communicator& comm) {
      Bytes data = random_tensor(type, kCount, comm.rank(), 23);
      ASSERT_TRUE(comm.all_reduce(data.data(), data.data(), kCount, type).wait());
      if (comm.rank() != 0) return;  // all have the same bits
      const Tensor result = widened(type, data);
      for (std::size_t i = 0; i < kCount; ++i) {
        long double exact = 0;  // 64 bits: of these values, all that is needed
        for (const Tensor& each : inputs) exact += each[i];
        double bound = static_cast<double>(hosts.size()) * std::ldexp(1, -scales[i / kBlockOf] - 1);
        for (const auto& host : groups) {
          float sum = inputs[host[0]][i];
          for (std::size_t g = 1; g < host.size(); ++g) {
            sum += inputs[host[g]][i];
            if (sum != 0) bound += std::ldexp(1, std::max(std::ilogb(sum), -126) - 24);  // half an ulp
          }
        }
        const int digits = type == DataType::float32 ? 24 : type == DataType::float16 ? 11 : 8;
        const int least = type == DataType::float16 ? -14 : -126;
        if (result[i] != 0) bound += std::ldexp(1, std::max(std::ilogb(result[i]), least) - digits);
        ASSERT_LE(std::fabs(static_cast<double>(result[i] - exact)), bound)
            << to_string(type) << ", element " << i;
      }
    });
  }
}

}  // namespace
}  // namespace passing::test
