// What communicators tell each other, and what they make of what nobody should have said.
#include "communicator/messages.h"

#include <gtest/gtest.h>

#include "base/bytes.h"

namespace passing {
namespace {

Introduction someone() {
  return {.version = "1.2",
          .strategy = "auto",
          .host = "gpu4",
          .address = "10.0.0.4:41233",
          .place = "a place",
          .rack = "left",
          .local_domain = "rack",
          .carrier = "memory",
          .process = 4711,
          .rank = 3,
          .size = 8,
          .lanes = 2,
          .link_rate = 25,
          .switch_rate = 7,
          .has_switch = true};
}

// Not whole, or with more than belongs to it: of another version, or damaged.
template <typename Message>
void expect_only_whole(const std::string& data) {
  EXPECT_TRUE(Message::decode(data));
  for (std::size_t length = 0; length < data.size(); ++length)
    EXPECT_FALSE(Message::decode(data.substr(0, length))) << length;
  EXPECT_FALSE(Message::decode(data + '\0'));
}

TEST(Messages, AnIntroductionSurvives) {
  const Introduction before = someone();
  const auto after = Introduction::decode(before.encode());
  ASSERT_TRUE(after);
  EXPECT_EQ(after->encode(), before.encode());
  EXPECT_EQ(after->version, "1.2");
  EXPECT_EQ(after->local_domain, "rack");
  EXPECT_EQ(after->carrier, "memory");
  EXPECT_EQ(after->lanes, 2U);
  EXPECT_EQ(after->link_rate, 25);
  EXPECT_EQ(after->switch_rate, 7);
  EXPECT_TRUE(after->has_switch);
  EXPECT_EQ(after->name(), "rank 3 at 10.0.0.4:41233 (host gpu4, process 4711)");
  expect_only_whole<Introduction>(before.encode());
}

// The one thing that no version may change.
TEST(Messages, AnIntroductionBeginsWithItsVersion) {
  const std::string data = someone().encode();
  EXPECT_EQ(data.substr(0, 7), std::string("\3\0\0\0001.2", 7));
  EXPECT_EQ(leading_version(data + "more"), "1.2");
  for (std::size_t length = 0; length < data.size(); ++length)
    EXPECT_EQ(leading_version(data.substr(0, length)),
              length < 7 ? std::nullopt : std::optional<std::string>("1.2"));
}

TEST(Messages, AControlSurvives) {
  ControlMessage before{.type = ControlMessage::Type::announce, .number = 7};
  before.signature = {.kind = strategy::Kind::all_reduce,
                      .type = DataType::bfloat16,
                      .reduction = Reduction::max,
                      .count = 12345};
  const auto after = ControlMessage::decode(before.encode());
  ASSERT_TRUE(after);
  EXPECT_EQ(after->type, ControlMessage::Type::announce);
  EXPECT_EQ(after->number, 7U);
  EXPECT_EQ(after->signature.describe(), before.signature.describe());
  expect_only_whole<ControlMessage>(before.encode());
}

TEST(Messages, NewsSurvive) {
  const ControlMessage before{.type = ControlMessage::Type::news, .text = std::string("\0who", 4)};
  const auto after = ControlMessage::decode(before.encode());
  ASSERT_TRUE(after);
  EXPECT_EQ(after->type, ControlMessage::Type::news);
  EXPECT_EQ(after->text, before.text);
  expect_only_whole<ControlMessage>(before.encode());
}

TEST(Messages, UnknownControlsAreRefused) {
  for (const int type : {0, 5, 255}) {
    std::string data = ControlMessage{}.encode();
    data[0] = static_cast<char>(type);
    EXPECT_FALSE(ControlMessage::decode(data)) << type;
  }
}

}  // namespace
}  // namespace passing
