// docs/mesh.md: messages that nobody receives yet need bounded memory, and hold nothing up.
#include <algorithm>
#include <cstring>
#include <random>

#include "seed.h"
#include "unit/meshes.h"

namespace passing::net {
namespace {

constexpr std::size_t kMostKept = kCredit / kRecord;
// What is left of the credit after large fillers, and as many as are announced beyond it.
constexpr std::size_t kEmpty = kCredit % (kSmall + kRecord) / kRecord + kAnnouncedPerTag;

class Credit : public Meshes {
 protected:
  void turns(int count) {
    for (int i = 0; i < count; ++i) eventually([] { return true; });
  }
  // From rank 0 to rank 1, with messages that lie there.
  void use_up_credit() {
    for (std::size_t i = 0; i < kCredit / (kSmall + kRecord); ++i)
      meshes[0]->send(1, 1, filler.data(), filler.size());
    for (std::size_t i = 0; i < kEmpty; ++i) meshes[0]->send(1, 1, nullptr, 0);
    turns(100);
  }
  void take_what_lies() {
    std::vector<TransferPtr> all;
    for (std::size_t i = 0; i < kCredit / (kSmall + kRecord); ++i)
      all.push_back(meshes[1]->recv(0, 1, kAll, filler.data(), filler.size()));
    for (std::size_t i = 0; i < kEmpty; ++i) all.push_back(meshes[1]->recv(0, 1, kAll, filler.data(), 0));
    ASSERT_TRUE(eventually(
        [&] { return std::all_of(all.begin(), all.end(), [](const auto& each) { return each->ended(); }); }));
  }

  std::vector<char> filler = std::vector<char>(kSmall);
};

TEST_F(Credit, AMillionMessagesForNobody) {
  make(2);
  constexpr std::uint64_t kCount = 1'000'000;
  std::vector<std::uint64_t> out(kCount);
  std::vector<TransferPtr> sends(kCount);
  std::size_t most = 0;
  for (std::uint64_t i = 0; i < kCount; ++i) {
    out[i] = i * i;
    sends[i] = meshes[0]->send(1, 5, &out[i], sizeof out[i]);
    if (i % 1000 != 0) continue;
    turns(1);
    most = std::max(most, meshes[1]->kept());
  }
  turns(1000);
  most = std::max(most, meshes[1]->kept());
  EXPECT_GT(most, 10'000U);
  EXPECT_LE(most, kMostKept + kAnnouncedPerTag);
  std::vector<std::uint64_t> in(kCount);
  std::vector<TransferPtr> receives(kCount);
  for (std::uint64_t i = 0; i < kCount; ++i) {
    receives[i] = meshes[1]->recv(0, 5, kAll, &in[i], sizeof in[i]);
    if (i % 1000 == 0) turns(1);
  }
  ASSERT_TRUE(eventually([&] { return receives.back()->ended() && meshes[0]->sends_pending() == 0; }));
  EXPECT_EQ(in, out);
  for (const auto& each : receives) ASSERT_EQ(each->status, Status::done);
  EXPECT_EQ(meshes[1]->kept(), 0U);
}

// Whatever the receiver waits for comes, whatever else it leaves lying.
TEST_F(Credit, OtherTagsGoOn) {
  make(2);
  std::vector<char> block(kSmall, 'b');
  std::vector<TransferPtr> lying;
  for (std::size_t i = 0; i < 2 * kCredit / kSmall; ++i)
    lying.push_back(meshes[0]->send(1, 1, block.data(), block.size()));
  turns(100);
  const std::size_t kept = meshes[1]->kept();
  EXPECT_LE(kept, kCredit / kSmall + kAnnouncedPerTag);
  // Small, empty and large ones of one tag, in order; more than may be announced at once.
  std::vector<std::vector<char>> out;
  for (std::size_t i = 0; i < 200; ++i) {
    const std::size_t bytes = i % 7 == 3 ? 20'000 + 1000 * i : i % 5 == 0 ? 0 : 100 * (i % 50);
    out.emplace_back(bytes, static_cast<char>(i));
  }
  for (const auto& each : out) meshes[0]->send(1, 2, each.data(), each.size());
  turns(100);
  EXPECT_LE(meshes[1]->kept(), kept + kAnnouncedPerTag + 30);
  meshes[0]->send_urgent(1, 3, "urgent");
  ASSERT_TRUE(eventually([&] { return meshes[1]->take(3, kAll).has_value(); }));
  for (const auto& each : out) {
    std::vector<char> in(each.size());
    const auto got = meshes[1]->recv(0, 2, kAll, in.data(), in.size(), each.size() % 2 == 0);
    ASSERT_TRUE(eventually([&] { return got->ended(); }));
    ASSERT_EQ(got->status, Status::done) << each.size();
    ASSERT_EQ(in, each);
  }
  // The credit comes back with them.
  std::vector<char> in(block.size());
  for (std::size_t i = 0; i < lying.size(); ++i) {
    const auto got = meshes[1]->recv(0, 1, kAll, in.data(), in.size());
    ASSERT_TRUE(eventually([&] { return got->ended(); }));
    ASSERT_EQ(in, block);
  }
  ASSERT_TRUE(eventually([&] { return meshes[0]->sends_pending() == 0; }));
  EXPECT_EQ(meshes[1]->kept(), 0U);
}

// Announcements, too, are bounded in number, of small messages and of large ones. What is held back for that
// comes as soon as a receive waits for it, in whatever order.
TEST_F(Credit, ManyTagsForNobody) {
  for (const std::size_t bytes : {std::size_t{8}, kSmall + 1}) {
    meshes.clear();
    make(2);
    use_up_credit();
    const std::size_t lying = meshes[1]->kept();
    constexpr std::uint64_t kTags = 100'000;
    const std::vector<char> block(bytes, 'm');
    for (std::uint64_t i = 0; i < kTags; ++i) meshes[0]->send(1, 1000 + i, block.data(), bytes);
    turns(1000);
    EXPECT_EQ(meshes[1]->kept(), lying + kMostAnnounced - kAnnouncedPerTag);
    // The last first, and one that was posted before its message is sent.
    std::vector<char> room(bytes);
    const auto early = meshes[1]->recv(0, 5, kAll, room.data(), bytes, true);
    meshes[0]->send(1, 5, block.data(), bytes);
    ASSERT_TRUE(eventually([&] { return early->ended(); }));
    for (std::uint64_t i = kTags; i-- > 0;) {
      const auto in = meshes[1]->recv(0, 1000 + i, kAll, room.data(), bytes, i % 2 == 0);
      ASSERT_TRUE(eventually([&] { return in->ended(); })) << i;
      ASSERT_EQ(in->status, Status::done);
      ASSERT_LE(meshes[1]->kept(), lying + kMostAnnounced);
    }
    ASSERT_EQ(room, block);
    take_what_lies();
    ASSERT_TRUE(eventually([&] { return meshes[0]->sends_pending() == 0; }));
    EXPECT_EQ(meshes[1]->kept(), 0U);
  }
}

// Where nothing is left of any limit, receives of every kind still find their messages: of one tag or of
// several, from one rank or from any, posted earlier or later.
TEST_F(Credit, WhatIsHeldComesWhenAReceiveWaits) {
  const unsigned first = test::random_seed();
  for (unsigned seed = first; seed < first + 20; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    meshes.clear();
    make(3);
    use_up_credit();
    for (std::uint64_t i = 0; i < kMostAnnounced; ++i) meshes[0]->send(1, 1'000'000 + i, nullptr, 0);
    turns(20);
    struct Planned {
      std::uint32_t from;
      std::uint64_t tag;
      std::uint64_t mask;
      std::size_t bytes;
    };
    std::vector<Planned> plan(2000);
    for (Planned& each : plan) {
      // Three kinds: one tag; any of several tags; those from anyone.
      const std::uint64_t kind = random() % 3;
      each.from = kind == 2 && random() % 2 == 0 ? 2 : 0;
      each.tag = (kind + 1) << 32 | random() % 16 << 4 | each.from;
      each.mask = kind == 0 ? kAll : kind == 1 ? ~std::uint64_t{0xF0} : ~std::uint64_t{0xFF};
      each.bytes = kind == 0 ? (each.tag & 0x10) != 0 ? 20'000 : 100 : 300;
    }
    std::vector<Planned> receives = plan;
    std::shuffle(receives.begin(), receives.end(), random);
    const std::vector<char> block(20'000);
    std::vector<char> room(20'000);
    std::vector<TransferPtr> all;
    while (!plan.empty() || !receives.empty()) {
      if (receives.empty() || (!plan.empty() && random() % 2 == 0)) {
        meshes[plan.back().from]->send(1, plan.back().tag, block.data(), plan.back().bytes);
        plan.pop_back();
      } else {
        const Planned& each = receives.back();
        const bool any = each.tag >> 32 == 3;
        const bool sure = each.tag >> 32 == 1;
        all.push_back(
            meshes[1]->recv(any ? 1 : each.from, each.tag, each.mask, room.data(), each.bytes, sure));
        receives.pop_back();
      }
      if (random() % 8 == 0) meshes[random() % 3]->progress();
    }
    const auto ended = [](const TransferPtr& each) { return each->status == Status::done; };
    ASSERT_TRUE(eventually([&] { return std::all_of(all.begin(), all.end(), ended); }))
        << std::count_if(all.begin(), all.end(), ended);
  }
}

// Both ways at once: the credit of one direction travels with the messages of the other.
TEST_F(Credit, ComesBack) {
  make(2);
  std::vector<char> block(1000);
  std::vector<char> room(block.size());
  for (int i = 0; i < 30'000; ++i) {
    TransferPtr in[2];
    for (std::uint32_t r = 0; r < 2; ++r) {
      in[r] = meshes[r]->recv(1 - r, 1, kAll, room.data(), room.size());
      ASSERT_EQ(meshes[r]->send(1 - r, 1, block.data(), block.size())->status, Status::pending);
    }
    ASSERT_TRUE(eventually([&] { return in[0]->ended() && in[1]->ended(); }));
  }
  ASSERT_TRUE(eventually([&] { return meshes[0]->sends_pending() == 0; }));
}

// A lost peer ends what was held back.
TEST_F(Credit, NothingIsLeftOfALostPeer) {
  make(2);
  std::vector<char> block(kSmall);
  std::vector<TransferPtr> sends;
  for (std::size_t i = 0; i < 2 * kCredit / kSmall; ++i)
    sends.push_back(meshes[0]->send(1, 1, block.data(), block.size()));
  turns(100);
  EXPECT_GT(meshes[0]->sends_pending(), kAnnouncedPerTag);
  meshes[1].reset();
  ASSERT_TRUE(eventually([&] { return meshes[0]->has_lost(); }));
  EXPECT_EQ(meshes[0]->sends_pending(), 0U);
  for (const auto& each : sends) EXPECT_TRUE(each->ended());
}

}  // namespace
}  // namespace passing::net
