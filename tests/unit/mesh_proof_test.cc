// docs/mesh.md: whoever says hello proves that it belongs to the group, and so does whoever answers.
#include "unit/meshes.h"

namespace passing::net {
namespace {

const Key kKey = key_of("a token of the tests");

class Proofs : public Meshes {
 protected:
  int say(const std::string& words) {
    const int descriptor = stranger(1);
    say(descriptor, words);
    return descriptor;
  }
  static void say(int descriptor, const std::string& words) {
    EXPECT_EQ(::send(descriptor, words.data(), words.size(), MSG_NOSIGNAL), std::ssize(words));
  }
};

TEST_F(Proofs, MembersMeet) {
  make(3, 7, kKey);
  int got[2] = {};
  int value = 8;
  // One of them calls, since the lower rank connects.
  const auto down = meshes[0]->recv(2, 1, kAll, &got[0], sizeof(int));
  const auto up = meshes[1]->recv(0, 2, kAll, &got[1], sizeof(int));
  meshes[2]->send(0, 1, &value, sizeof value);
  meshes[0]->send(1, 2, &value, sizeof value);
  ASSERT_TRUE(eventually([&] { return down->ended() && up->ended(); }));
  EXPECT_EQ(got[0] + got[1], 16);
  for (const auto& each : meshes) EXPECT_EQ(each->refused().unproven, 0U);
}

TEST_F(Proofs, TheRightWordsAreWelcome) {
  make(2, 7, kKey);
  const int descriptor = stranger(1);
  const Meeting meeting = meet(descriptor, 1, 0);
  say(descriptor, hello(meeting, kKey));
  const std::string welcome = hear(descriptor, sizeof(FrameHeader) + sizeof(Proof));
  EXPECT_EQ(welcome.substr(sizeof(FrameHeader)), text(prove(kKey, meeting, Side::acceptor)));
  EXPECT_TRUE(meshes[1]->connected(0));
  ::close(descriptor);
}

TEST_F(Proofs, WhatDoesNotProveAnythingIsRefused) {
  make(3, 7, kKey);
  const Refused& counts = meshes[1]->refused();
  std::uint64_t tries = 0;
  const auto refuses = [&](int descriptor, const std::string& words) {
    say(descriptor, words);
    EXPECT_TRUE(refused(descriptor)) << tries;
    EXPECT_EQ(counts.unproven, ++tries);
    ::close(descriptor);
  };
  // Another key, or none.
  for (const Key& key : {key_of("another token"), Key{}}) {
    const int descriptor = stranger(1);
    refuses(descriptor, hello(meet(descriptor, 1, 0), key));
  }
  // The proof of whoever accepts: what a mesh can be made to say is of no use to say to it.
  int descriptor = stranger(1);
  refuses(descriptor, hello(meet(descriptor, 1, 0), kKey, Side::acceptor));
  // Its own challenge, sent back.
  descriptor = stranger(1);
  Meeting meeting = meet(descriptor, 1, 0);
  meeting.of_dialler = meeting.of_acceptor;
  refuses(descriptor, hello(meeting, kKey, Side::acceptor));
  // Said to another rank, in the name of another, in another group, or for another purpose.
  for (int change = 0; change < 4; ++change) {
    descriptor = stranger(1);
    meeting = meet(descriptor, 1, 0);
    Meeting other = meeting;
    if (change == 0) other.acceptor = 2;
    if (change == 1) other.dialler = 2;
    if (change == 2) other.group = 8;
    if (change == 3) other.purpose = static_cast<std::uint32_t>(FrameType::call);
    const std::string proof = text(prove(kKey, other, Side::dialler));
    const std::string words = hello(meeting, kKey);
    refuses(descriptor, words.substr(0, words.size() - proof.size()) + proof);
  }
  // A call, too.
  descriptor = stranger(1);
  refuses(descriptor, hello(meet(descriptor, 1, 2, FrameType::call)));
  EXPECT_FALSE(meshes[1]->connected(2));
  EXPECT_FALSE(meshes[1]->has_lost());
}

// What was once right, word by word, in the same name.
TEST_F(Proofs, AReplayIsRefused) {
  make(3, 7, kKey);
  const int first = stranger(1);
  const std::string words = hello(meet(first, 1, 2, FrameType::call), kKey);
  say(first, words);
  ASSERT_EQ(hear(first, sizeof(FrameHeader) + sizeof(Proof)).size(), sizeof(FrameHeader) + sizeof(Proof));
  const int second = say(words);
  EXPECT_TRUE(refused(second));
  EXPECT_EQ(meshes[1]->refused().unproven, 1U);
  ::close(first);
  ::close(second);
}

// Nothing goes to someone who has taken a peer's address and does not know the key.
TEST_F(Proofs, WhoeverAnswersProvesItToo) {
  make(2, 7, kKey);
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  SocketAddress there = *parse_address("127.0.0.1:0");
  ASSERT_EQ(::bind(listener, there.get(), there.length), 0);
  ASSERT_EQ(::listen(listener, 4), 0);
  getsockname(listener, there.get(), &there.length);
  meshes[0]->introduce({meshes[0]->socket_address(), there}, 7, kKey);
  int value = 5;
  const auto out = meshes[0]->send(1, 1, &value, sizeof value);
  meshes[0]->flush();
  const int descriptor = ::accept(listener, nullptr, nullptr);
  Meeting meeting{.of_acceptor = new_nonce(), .acceptor = 1, .dialler = 0, .group = 7, .purpose = 1};
  const std::uint64_t tag = std::uint64_t{FrameHeader::kVersion} << 32 | 1;
  say(descriptor, frame(FrameType::challenge, tag, 0, sizeof(Nonce)) + text(meeting.of_acceptor));
  const std::string words = hear(descriptor, sizeof(FrameHeader) + sizeof(Nonce) + sizeof(Proof));
  std::memcpy(&meeting.of_dialler, words.data() + sizeof(FrameHeader), sizeof(Nonce));
  EXPECT_EQ(words, hello(meeting, kKey));
  // Its own proof, handed back.
  say(descriptor,
      frame(FrameType::welcome, tag, 0, sizeof(Proof)) + words.substr(words.size() - sizeof(Proof)));
  EXPECT_TRUE(eventually([&] { return out->ended(); }));
  EXPECT_EQ(out->status, Status::failed);
  const auto lost = meshes[0]->take_lost();
  ASSERT_EQ(lost.size(), 1U);
  EXPECT_EQ(lost[0].reason, "it does not belong to the group");
  // Not a byte of the message.
  char byte = 0;
  EXPECT_LE(::recv(descriptor, &byte, 1, MSG_DONTWAIT), 0);
  ::close(descriptor);
  ::close(listener);
}

// The challenge comes first, so whoever connects can say what is wrong.
TEST_F(Proofs, AnotherVersionIsNamed) {
  make(2, 7, kKey);
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  SocketAddress there = *parse_address("127.0.0.1:0");
  ASSERT_EQ(::bind(listener, there.get(), there.length), 0);
  ASSERT_EQ(::listen(listener, 4), 0);
  getsockname(listener, there.get(), &there.length);
  meshes[0]->introduce({meshes[0]->socket_address(), there}, 7, kKey);
  const auto out = meshes[0]->send(1, 1, nullptr, 0);
  meshes[0]->flush();
  const int descriptor = ::accept(listener, nullptr, nullptr);
  const std::uint64_t tag = std::uint64_t{FrameHeader::kVersion + 1} << 32 | 1;
  say(descriptor, frame(FrameType::challenge, tag, 0, 99));
  EXPECT_TRUE(eventually([&] { return out->ended(); }));
  const auto lost = meshes[0]->take_lost();
  ASSERT_EQ(lost.size(), 1U);
  EXPECT_EQ(lost[0].reason, "it speaks another version of the protocol");
  ::close(descriptor);
  ::close(listener);
}

}  // namespace
}  // namespace passing::net
