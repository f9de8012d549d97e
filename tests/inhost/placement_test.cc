// docs/inhost.md section 6: where ranks belong, on machines that hwloc makes up.
#include "inhost/placement.h"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/mempolicy.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <initializer_list>
#include <numeric>
#include <thread>

#include "inhost/company.h"
#include "inhost/layout.h"

namespace passing::test {
namespace {

using inhost::nodes_of_synthetic;
using inhost::place_ranks;
using inhost::Placement;
using Numbers = std::vector<int>;

cpu_set_t to_set(const Numbers& cores) {
  cpu_set_t result;
  CPU_ZERO(&result);
  for (const int core : cores) CPU_SET(core, &result);
  return result;
}

Numbers to_numbers(const cpu_set_t& cores) {
  Numbers result;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &cores)) result.push_back(i);
  }
  return result;
}

/// first, first + 1, ... up to, and without, end.
Numbers range(int first, int end) {
  Numbers result(static_cast<std::size_t>(end - first));
  std::iota(result.begin(), result.end(), first);
  return result;
}

using Sets = std::vector<cpu_set_t>;
Sets all_alike(std::size_t ranks, const Numbers& cores) { return Sets(ranks, to_set(cores)); }

Numbers nodes(const std::vector<Placement>& placements) {
  Numbers result;
  for (const Placement& each : placements) result.push_back(each.node);
  return result;
}

/// As it must be, whatever is decided.
std::vector<Placement> placed(const std::vector<inhost::Node>& machine, const Sets& allowed) {
  auto placements = place_ranks(machine, allowed);
  EXPECT_EQ(placements.size(), allowed.size());
  for (std::size_t r = 0; r < placements.size(); ++r) {
    const Placement& rank = placements[r];
    EXPECT_EQ(rank.node < 0, CPU_COUNT(&rank.cores) == 0) << "rank " << r;
    cpu_set_t inside;
    CPU_AND(&inside, &rank.cores, &allowed[r]);
    EXPECT_TRUE(CPU_EQUAL(&inside, &rank.cores)) << "rank " << r << " may not go where it belongs";
    for (const inhost::Node& node : machine) {
      CPU_AND(&inside, &rank.cores, &node.cores);
      const bool home = static_cast<int>(node.number) == rank.node;
      EXPECT_EQ(CPU_COUNT(&inside), home ? CPU_COUNT(&rank.cores) : 0) << "rank " << r;
    }
  }
  return placements;
}

TEST(Nodes, OfSyntheticMachines) {
  EXPECT_EQ(nodes_of_synthetic("core:4 pu:1").size(), 1U);
  EXPECT_TRUE(nodes_of_synthetic("nonsense").empty());
  const auto two = nodes_of_synthetic("package:2 numanode:1 core:4 pu:1");
  ASSERT_EQ(two.size(), 2U);
  EXPECT_EQ(to_numbers(two[0].cores), range(0, 4));
  EXPECT_EQ(to_numbers(two[1].cores), range(4, 8));
  const auto four = nodes_of_synthetic("package:2 numanode:2 core:2 pu:2");
  ASSERT_EQ(four.size(), 4U);
  EXPECT_EQ(four[3].number, 3U);
  EXPECT_EQ(to_numbers(four[3].cores), range(12, 16));
}

TEST(Nodes, WithoutCores) {
  // In each package ordinary memory, then fast; and some for the whole machine.
  const auto machine = nodes_of_synthetic("[numa] package:2 [numa] [numa] core:2 pu:1");
  ASSERT_EQ(machine.size(), 2U);
  EXPECT_EQ(machine[0].number, 0U);
  EXPECT_EQ(machine[1].number, 2U);
  EXPECT_EQ(to_numbers(machine[1].cores), range(2, 4));
  EXPECT_EQ(nodes(placed(machine, all_alike(4, range(0, 4)))), (Numbers{0, 0, 2, 2}));
  // One node with cores is one node.
  EXPECT_EQ(nodes_of_synthetic("[numa] [numa] core:4 pu:1").size(), 1U);
  // Nothing is dealt to those without.
  std::vector<inhost::Node> bare{{.number = 7}, machine[0], {.number = 8}, machine[1]};
  EXPECT_EQ(nodes(placed(bare, all_alike(3, range(0, 4)))), (Numbers{0, 0, 2}));
}

TEST(Nodes, OfThisMachine) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  EXPECT_NE(inhost::nodes_of_machine().size(), 1U);
  cpu_set_t after;
  ASSERT_EQ(sched_getaffinity(0, sizeof after, &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
}

TEST(Placements, OnOneNode) {
  const auto machine = nodes_of_synthetic("numanode:1 core:4 pu:2");
  EXPECT_EQ(nodes(placed(machine, all_alike(4, range(0, 8)))), (Numbers{-1, -1, -1, -1}));
  EXPECT_EQ(nodes(placed({}, all_alike(2, range(0, 8)))), (Numbers{-1, -1}));
}

TEST(Placements, OfOneRank) {
  const auto machine = nodes_of_synthetic("numanode:2 core:4 pu:1");
  EXPECT_EQ(nodes(placed(machine, all_alike(1, range(0, 8)))), Numbers{-1});
  EXPECT_TRUE(placed(machine, {}).empty());
}

TEST(Placements, OfRanksThatAreNotBound) {
  const auto two = nodes_of_synthetic("package:2 numanode:1 core:4 pu:1");
  auto all = placed(two, all_alike(4, range(0, 8)));
  EXPECT_EQ(nodes(all), (Numbers{0, 0, 1, 1}));
  EXPECT_EQ(to_numbers(all[0].cores), range(0, 4));
  EXPECT_EQ(to_numbers(all[3].cores), range(4, 8));
  EXPECT_EQ(nodes(placed(two, all_alike(2, range(0, 8)))), (Numbers{0, 1}));
  EXPECT_EQ(nodes(placed(two, all_alike(5, range(0, 8)))), (Numbers{0, 0, 0, 1, 1}));
  const auto four = nodes_of_synthetic("package:2 numanode:2 core:4 pu:1");
  EXPECT_EQ(nodes(placed(four, all_alike(16, range(0, 16)))),
            (Numbers{0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3}));
  EXPECT_EQ(nodes(placed(four, all_alike(3, range(0, 16)))), (Numbers{0, 1, 2}));
  // Cores that the machine does not have change nothing.
  EXPECT_EQ(nodes(placed(two, all_alike(2, range(0, CPU_SETSIZE)))), (Numbers{0, 1}));
}

TEST(Placements, OnUnevenNodes) {
  auto machine = nodes_of_synthetic("numanode:2 core:6 pu:1");
  for (int core = 8; core < 12; ++core) CPU_CLR(core, &machine[1].cores);
  // Six cores and two: as many for each rank.
  EXPECT_EQ(nodes(placed(machine, all_alike(4, range(0, 12)))), (Numbers{0, 0, 0, 1}));
  EXPECT_EQ(nodes(placed(machine, all_alike(8, range(0, 12)))), (Numbers{0, 0, 0, 0, 0, 0, 1, 1}));
}

TEST(Placements, OfMoreRanksThanCores) {
  const auto machine = nodes_of_synthetic("numanode:2 core:1 pu:1");
  const auto all = placed(machine, all_alike(16, {0, 1}));
  EXPECT_EQ(nodes(all), (Numbers{0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(to_numbers(all[15].cores), Numbers{1});
}

TEST(Placements, OfRanksBoundToHalf) {
  const auto machine = nodes_of_synthetic("package:2 numanode:1 core:4 pu:1");
  // By turns, as some launchers do; then all on one node, as a container may be; then half of each.
  const cpu_set_t low = to_set(range(0, 4));
  const cpu_set_t high = to_set(range(4, 8));
  EXPECT_EQ(nodes(placed(machine, {high, low, high, low})), (Numbers{1, 0, 1, 0}));
  EXPECT_EQ(nodes(placed(machine, all_alike(4, range(4, 8)))), (Numbers{1, 1, 1, 1}));
  const auto all = placed(machine, all_alike(2, {2, 3, 4, 5}));
  EXPECT_EQ(nodes(all), (Numbers{0, 1}));
  EXPECT_EQ(to_numbers(all[0].cores), (Numbers{2, 3}));
  EXPECT_EQ(to_numbers(all[1].cores), (Numbers{4, 5}));
}

TEST(Placements, OfRanksAcrossNodes) {
  const auto machine = nodes_of_synthetic("package:2 numanode:1 core:4 pu:1");
  const auto all = placed(machine, {to_set({0, 4, 5, 6}), to_set({1, 2, 7}), to_set({3, 4})});
  EXPECT_EQ(nodes(all), (Numbers{1, 0, 0}));
  EXPECT_EQ(to_numbers(all[0].cores), (Numbers{4, 5, 6}));
  EXPECT_EQ(to_numbers(all[1].cores), (Numbers{1, 2}));
  EXPECT_EQ(to_numbers(all[2].cores), Numbers{3});
  // A core kept for the system does not send everyone away from its node.
  EXPECT_EQ(nodes(placed(machine, all_alike(4, range(1, 8)))), (Numbers{0, 0, 1, 1}));
}

TEST(Placements, OfRanksThatAreNowhere) {
  const auto machine = nodes_of_synthetic("package:2 numanode:1 core:4 pu:1");
  EXPECT_EQ(nodes(placed(machine, {to_set({}), to_set({5}), to_set({100, 101})})), (Numbers{-1, 1, -1}));
}

/// A page of its own, as a segment has them.
class Page {
 public:
  Page()
      : data_(static_cast<std::byte*>(
            mmap(nullptr, inhost::kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {}
  ~Page() { munmap(data_, inhost::kPage); }
  std::byte* data() const { return data_; }

 private:
  std::byte* data_;
};

/// Of memory; -1: it cannot be known.
int policy_of(const std::byte* page) {
  int policy = -1;
  return ::syscall(SYS_get_mempolicy, &policy, nullptr, 0, page, MPOL_F_ADDR) == 0 ? policy : -1;
}

TEST(Binding, Memory) {
  const Page page;
  Placement nowhere;
  inhost::bind_memory(nowhere, page.data(), inhost::kPage);
  EXPECT_EQ(nowhere.refused, 0U);

  Placement first{.node = 0};
  inhost::bind_memory(first, page.data(), inhost::kPage);
  if (first.refused != 0) GTEST_SKIP() << "mbind is forbidden here";
  EXPECT_EQ(policy_of(page.data()), MPOL_PREFERRED);
  page.data()[0] = std::byte{1};
}

TEST(Binding, MemoryToNodesThatAreNotThere) {
  const Page page;
  Placement wrong{.node = 1023};
  inhost::bind_memory(wrong, page.data(), inhost::kPage);
  EXPECT_EQ(wrong.refused, 1U);
  wrong.node = 1 << 30;
  inhost::bind_memory(wrong, page.data(), inhost::kPage);
  EXPECT_EQ(wrong.refused, 2U);
  page.data()[0] = std::byte{1};
}

cpu_set_t own_cores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  sched_getaffinity(0, sizeof cores, &cores);
  return cores;
}

TEST(Binding, Thread) {
  const Numbers may = to_numbers(own_cores());
  std::thread([&] {
    Placement placement;
    inhost::bind_thread(placement);
    EXPECT_EQ(to_numbers(own_cores()), may);
    placement.cores = to_set({may.back(), CPU_SETSIZE - 1});
    inhost::bind_thread(placement);
    EXPECT_EQ(placement.refused, 0U);
    EXPECT_EQ(to_numbers(own_cores()), Numbers{may.back()});
    // Never where it may not go.
    placement.cores = to_set({CPU_SETSIZE - 1});
    inhost::bind_thread(placement);
    EXPECT_EQ(placement.refused, 1U);
    EXPECT_EQ(to_numbers(own_cores()), Numbers{may.back()});
  }).join();
  EXPECT_EQ(to_numbers(own_cores()), may);
}

/// From here on, for this thread.
void forbid(std::uint32_t call, std::uint32_t other) {
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 1, 0), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, other, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  sock_fprog program{std::size(code), code};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/// With the cores of this process: half of them each; one core is in the first.
std::vector<inhost::Node> two_nodes() {
  std::vector<inhost::Node> result{{.number = 0}, {.number = 1}};
  const Numbers may = to_numbers(own_cores());
  for (std::size_t i = 0; i < may.size(); ++i) CPU_SET(may[i], &result[2 * i / may.size()].cores);
  return result;
}

struct Met {
  Placement placement;
  int policy = -1;  // of its part
};

/// Two ranks meet on a machine with two nodes; `before` is done on the thread of each.
std::vector<Met> meet_on_two_nodes(const std::function<void()>& before) {
  auto door = inhost::Door::open();
  std::vector<Met> ranks(2);
  const auto settings = *inhost::Settings{}.for_ranks(2);
  const auto rank = [&](std::size_t index) {
    before();
    auto met = inhost::meet(*door,
                            {.ranks = {0, 1},
                             .index = index,
                             .names = {"rank 0", "rank 1"},
                             .leader = door->name(),
                             .settings = settings,
                             .nodes = two_nodes},
                            inhost::now() + 20 * kSecond);
    ASSERT_TRUE(met) << met.error().message;
    std::byte* part = met->segment.data() + sizeof(inhost::Header) + index * settings.shared_bytes;
    part[0] = std::byte{1};
    ranks[index] = {met->placement, policy_of(part)};
    inhost::bind_thread(ranks[index].placement);
  };
  std::thread first(rank, 0);
  std::thread second(rank, 1);
  first.join();
  second.join();
  return ranks;
}

TEST(Binding, WhenRanksMeet) {
  const auto expected = place_ranks(two_nodes(), Sets(2, own_cores()));
  const auto all = meet_on_two_nodes([] {});
  for (const std::size_t r : {0U, 1U}) {
    const Placement& placement = all[r].placement;
    EXPECT_EQ(placement.node, expected[r].node);
    EXPECT_EQ(to_numbers(placement.cores), to_numbers(expected[r].cores));
    if (placement.refused > 0 || all[r].policy < 0) continue;
    EXPECT_EQ(all[r].policy, MPOL_PREFERRED);
  }
}

TEST(Binding, WhereItIsForbidden) {
  const auto all = meet_on_two_nodes([] { forbid(SYS_mbind, SYS_sched_setaffinity); });
  for (const Met& each : all) EXPECT_EQ(each.placement.refused, 2U);
}

TEST(Binding, NothingOnAMachineWithOneNode) {
  if (!inhost::nodes_of_machine().empty()) GTEST_SKIP() << "this one has several";
  in_threads(2, {}, [](inhost::Host& host) {
    EXPECT_EQ(host.placement().node, -1);
    EXPECT_EQ(CPU_COUNT(&host.placement().cores), 0);
    EXPECT_EQ(host.placement().refused, 0U);
  });
}

}  // namespace
}  // namespace passing::test
