// docs/protocol.md section 2.
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "wire/packet.h"
#include "wire/tag.h"

namespace passing::wire {
namespace {

Header sample() {
  return {.type = Type::contribution,
          .job = 0x01020304,
          .key = 0x1122334455667788,
          .epoch = 5,
          .sequence = 0xFFFFFFFE,
          .tag = 0xAABBCCDD,
          .word = 254,
          .count = 3,
          .member = 63,
          .lane = 7,
          .flags = PASSING_FLAG_AGAIN};
}

std::vector<std::byte> packet_of(const Header& header) {
  std::vector<std::byte> packet(packet_bytes(header.count));
  write_header(header, packet.data());
  return packet;
}

TEST(Wire, Section2HeaderLayoutIsBigEndianAtTheSpecifiedOffsets) {
  const auto p = packet_of(sample());
  const std::vector<int> expected = {0x50, 0x53, 1,    1,    1, 2,   3, 4, 0x11, 0x22, 0x33, 0x44,
                                     0x55, 0x66, 0x77, 0x88, 0, 0,   0, 5, 0xFF, 0xFF, 0xFF, 0xFE,
                                     0xAA, 0xBB, 0xCC, 0xDD, 0, 254, 0, 3, 0,    63,   7,    1};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(std::to_integer<int>(p[i]), expected[i]) << "offset " << i;
  }
}

TEST(Wire, Section2HeaderSurvivesARoundTrip) {
  Header read;
  ASSERT_EQ(parse(packet_of(sample()), Direction::to_switch, 3, read), Drop::none);
  EXPECT_EQ(to_string(read), to_string(sample()));
  EXPECT_EQ(read.key, sample().key);
}

// Every check has its own reason, and comes in the order of section 2.
TEST(Wire, Section2EachFieldIsChecked) {
  const auto damaged = [](std::size_t offset, int value) {
    auto p = packet_of(sample());
    p[offset] = static_cast<std::byte>(value);
    Header read;
    return parse(p, Direction::to_switch, 3, read);
  };
  EXPECT_EQ(damaged(0, 0), Drop::bad_magic);
  EXPECT_EQ(damaged(1, 0), Drop::bad_magic);
  EXPECT_EQ(damaged(2, 2), Drop::bad_version);
  EXPECT_EQ(damaged(3, 0), Drop::bad_type);
  EXPECT_EQ(damaged(3, 7), Drop::bad_type);
  EXPECT_EQ(damaged(3, PASSING_RESULT), Drop::bad_type) << "wrong direction";
  EXPECT_EQ(damaged(35, 2), Drop::bad_flags);
  EXPECT_EQ(damaged(31, 4), Drop::bad_count);
  EXPECT_EQ(damaged(31, 2), Drop::bad_length);
  EXPECT_EQ(damaged(29, 255), Drop::bad_word);
  EXPECT_EQ(damaged(28, 0xFF), Drop::none) << "0xFFFE is NONFINITE";
}

TEST(Wire, Section2EveryLengthButTheRightOneIsRefused) {
  auto p = packet_of(sample());
  Header read;
  for (std::size_t size = 0; size < p.size(); ++size) {
    const Drop drop = parse({p.data(), size}, Direction::to_switch, 3, read);
    EXPECT_EQ(drop, size < PASSING_HEADER_BYTES ? Drop::too_short : Drop::bad_length);
  }
  p.push_back({});
  EXPECT_EQ(parse(p, Direction::to_switch, 3, read), Drop::bad_length);
}

TEST(Wire, Section21CountsOfControlPacketsAreFixed) {
  Header read;
  for (const auto& [type, direction, count] : {std::tuple{Type::abort, Direction::to_switch, 0},
                                               {Type::status_request, Direction::to_switch, 5},
                                               {Type::notice, Direction::to_member, 5},
                                               {Type::status, Direction::to_member, 5}}) {
    for (int tried = 0; tried < 8; ++tried) {
      Header h = sample();
      h.type = type;
      h.count = static_cast<std::uint16_t>(tried);
      EXPECT_EQ(parse(packet_of(h), direction, 100, read), tried == count ? Drop::none : Drop::bad_count);
    }
  }
}

TEST(Wire, Section21ReportSurvivesARoundTrip) {
  const Report report{
      .bitmap = 0x8000000000000001, .tag = 9, .state = SlotState::aborted, .first = 63, .second = 2};
  std::byte bytes[4 * PASSING_REPORT_WORDS];
  write_report(report, bytes);
  Report read;
  ASSERT_TRUE(read_report(bytes, read));
  EXPECT_EQ(read.bitmap, report.bitmap);
  EXPECT_EQ(read.tag, report.tag);
  EXPECT_EQ(read.state, report.state);
  EXPECT_EQ(read.first, report.first);
  EXPECT_EQ(read.second, report.second);
  bytes[15] = std::byte{5};
  EXPECT_FALSE(read_report(bytes, read)) << "a state that does not exist";
}

TEST(Wire, Section23ChunksOfOneOperationNeverShareATag) {
  const std::uint32_t operation = operation_hash({1, 1, 1, 1, 100, 0, 1, 2112, 352, 1});
  std::set<std::uint32_t> tags;
  for (const auto kind : {ChunkKind::data, ChunkKind::exponent, ChunkKind::classes}) {
    for (std::uint64_t block = 0; block < 1000; ++block) {
      for (std::uint32_t packet = 0; packet < 8; ++packet) {
        EXPECT_TRUE(tags.insert(chunk_tag(operation, kind, block, packet)).second);
      }
    }
  }
}

TEST(Wire, Section23TagsOfTheSpecification) {
  // Fixed values: another implementation must find the same.
  const std::uint32_t operation = operation_hash({7, 1, 1, 2, 1000, 0, 8, 2112, 352, 4, 8, 43, 0});
  EXPECT_EQ(operation, 0x87AFEF30U);
  EXPECT_EQ(chunk_tag(operation, ChunkKind::classes, 3, 5), 0x7BB1B45EU);
}

}  // namespace
}  // namespace passing::wire
