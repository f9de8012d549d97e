// docs/mesh.md: messages that nobody receives yet need bounded memory, and hold nothing up.
#include <cstring>

#include "unit/meshes.h"

namespace passing::net {
namespace {

constexpr std::size_t kMostKept = kCredit / kRecord;

class Credit : public Meshes {
 protected:
  void turns(int count) {
    for (int i = 0; i < count; ++i) eventually([] { return true; });
  }
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
