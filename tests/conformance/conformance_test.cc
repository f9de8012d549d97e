// Runs every case of cases/ against every dataplane: docs/protocol.md sections 2 to 4.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <set>

#include "conformance/case_file.h"
#include "conformance/dataplane.h"
#include "wire/packet.h"

namespace passing::conformance {
namespace {

const std::vector<Candidate>& candidates() {
  static const std::vector<Candidate> all = [] {
    std::vector<Candidate> list = {
        {"aggregator", make_aggregator}, {"sockets", make_sockets}, {"plain_sockets", make_plain_sockets}};
#ifdef PASSING_HAS_BPF
    for (const Candidate& each : bpf_candidates()) list.push_back(each);
#endif
    return list;
  }();
  return all;
}

Address address_of(std::uint32_t job, std::uint16_t member, std::uint32_t lane) {
  Address address;
  address.ip[0] = static_cast<std::uint8_t>(job);
  address.ip[15] = static_cast<std::uint8_t>(member);
  address.port = static_cast<std::uint16_t>(7000 + lane);
  return address;
}

class Runner {
 public:
  explicit Runner(const Candidate& candidate) : candidate_(candidate) {}

  void run(const Step& step) {
    if (step.verb == "switch") {
      dataplane_ = candidate_.make({.elements = static_cast<std::uint16_t>(number(step, "elements", 4)),
                                    .slots = static_cast<std::uint32_t>(number(step, "slots", 8))});
    } else if (step.verb == "job") {
      const auto installed = dataplane_->install(spec_of(step));
      EXPECT_TRUE(installed) << installed.error().message;
    } else if (step.verb == "refused") {
      EXPECT_FALSE(dataplane_->install(spec_of(step)));
    } else if (step.verb == "depart") {
      dataplane_->depart(static_cast<std::uint32_t>(number(step, "id", 7)),
                         static_cast<std::uint32_t>(number(step, "epoch", 1)),
                         static_cast<std::uint16_t>(number(step, "member", 0)));
    } else if (step.verb == ">") {
      EXPECT_TRUE(checked_) << "the answer to the packet before has no '<' line";
      send(step);
    } else if (step.verb == "<") {
      expect(step);
    } else if (step.verb == "count") {
      const auto value = dataplane_->counter(step.words.at(0));
      ASSERT_TRUE(value) << "no counter " << step.words[0];
      EXPECT_EQ(*value, std::stoull(step.words.at(1)));
    } else {
      FAIL() << "unknown verb " << step.verb;
    }
  }

  void end() const { EXPECT_TRUE(checked_) << "the answer to the last packet has no '<' line"; }

 private:
  static long long number(const Step& step, const std::string& key, long long otherwise) {
    const auto found = step.fields.find(key);
    return found == step.fields.end() ? otherwise : std::stoll(found->second, nullptr, 0);
  }

  dataplane::JobSpec spec_of(const Step& step) {
    dataplane::JobSpec spec{.job = static_cast<std::uint32_t>(number(step, "id", 7)),
                            .epoch = static_cast<std::uint32_t>(number(step, "epoch", 1)),
                            .key = static_cast<std::uint64_t>(number(step, "key", 42)),
                            .members = static_cast<std::uint16_t>(number(step, "members", 2)),
                            .lanes = static_cast<std::uint8_t>(number(step, "lanes", 1)),
                            .slots = static_cast<std::uint32_t>(number(step, "slots", 2)),
                            .first_sequence = static_cast<std::uint32_t>(number(step, "first", 0)),
                            .addresses = {}};
    for (std::uint16_t m = 0; m < spec.members; ++m) {
      for (std::uint32_t l = 0; l < spec.lanes; ++l) spec.addresses.push_back(address_of(spec.job, m, l));
    }
    job_ = spec;
    return spec;
  }

  static int type_of(const std::string& name) {
    for (const auto type : {wire::Type::contribution, wire::Type::result, wire::Type::notice,
                            wire::Type::abort, wire::Type::status_request, wire::Type::status}) {
      if (name == wire::to_string(type)) return static_cast<int>(type);
    }
    return std::stoi(name);
  }

  static std::uint16_t member_word(const std::string& word) {
    return static_cast<std::uint16_t>(std::stoi(word.substr(1)));
  }

  std::uint32_t ordered(std::uint32_t value) const {
    return dataplane_->big_endian() ? __builtin_bswap32(value) : value;
  }

  void send(const Step& step) {
    const std::uint16_t sender = member_word(step.words.at(0));
    const auto type = step.fields.count("type") ? type_of(step.fields.at("type")) : PASSING_CONTRIBUTION;
    std::vector<long long> values = step.values;
    if (type == PASSING_STATUS_REQUEST && values.empty()) values.resize(PASSING_REPORT_WORDS);
    const wire::Header header{
        .type = static_cast<wire::Type>(type),
        .job = static_cast<std::uint32_t>(number(step, "job", job_.job)),
        .key = static_cast<std::uint64_t>(number(step, "key", static_cast<long long>(job_.key))),
        .epoch = static_cast<std::uint32_t>(number(step, "epoch", job_.epoch)),
        .sequence = static_cast<std::uint32_t>(number(step, "seq", 0)),
        .tag = static_cast<std::uint32_t>(number(step, "tag", 0)),
        .word = static_cast<std::uint16_t>(number(step, "word", 0)),
        .count = static_cast<std::uint16_t>(number(step, "count", static_cast<long long>(values.size()))),
        .member = static_cast<std::uint16_t>(number(step, "member", sender)),
        .lane = static_cast<std::uint8_t>(number(step, "lane", 0)),
        .flags = static_cast<std::uint8_t>(number(step, "flags", 0))};
    std::vector<std::byte> packet(wire::packet_bytes(values.size()));
    wire::write_header(header, packet.data());
    const auto magic = number(step, "magic", PASSING_MAGIC);
    packet[0] = static_cast<std::byte>(magic >> 8);
    packet[1] = static_cast<std::byte>(magic);
    packet[2] = static_cast<std::byte>(number(step, "version", PASSING_VERSION));
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::uint32_t value = ordered(static_cast<std::uint32_t>(values[i]));
      std::memcpy(packet.data() + PASSING_HEADER_BYTES + 4 * i, &value, 4);
    }
    packet.resize(static_cast<std::size_t>(number(step, "length", static_cast<long long>(packet.size()))));

    Address from = address_of(job_.job, sender, header.lane);
    if (const auto found = step.fields.find("from"); found != step.fields.end()) {
      if (found->second == "stranger")
        from.ip[7] = 99;
      else
        from = address_of(job_.job, member_word(found->second), header.lane);
    }
    answer_ = dataplane_->handle(from, packet);
    checked_ = false;
  }

  void expect(const Step& step) {
    checked_ = true;
    const std::string& to = step.words.at(0);
    if (to == "none") {
      EXPECT_FALSE(answer_) << "something was sent";
      return;
    }
    ASSERT_TRUE(answer_) << "nothing was sent";
    EXPECT_EQ(answer_->to ? "m" + std::to_string(*answer_->to) : "all", to);
    wire::Header header;
    ASSERT_EQ(wire::parse(answer_->bytes, wire::Direction::to_member, PASSING_MAX_ELEMENTS, header),
              wire::Drop::none);
    EXPECT_EQ(wire::to_string(header.type), step.words.at(1));
    wire::Report report;
    std::vector<long long> values;
    if (header.type == wire::Type::result) {
      for (std::size_t i = 0; i < header.count; ++i) {
        std::uint32_t value = 0;
        std::memcpy(&value, answer_->bytes.data() + PASSING_HEADER_BYTES + 4 * i, 4);
        values.push_back(static_cast<std::int32_t>(ordered(value)));
      }
    } else {
      ASSERT_TRUE(wire::read_report(answer_->bytes.data() + PASSING_HEADER_BYTES, report));
    }
    EXPECT_EQ(values, step.values);
    const std::map<std::string, std::uint64_t> got = {
        {"job", header.job},       {"key", header.key},
        {"epoch", header.epoch},   {"seq", header.sequence},
        {"tag", header.tag},       {"word", header.word},
        {"member", header.member}, {"lane", header.lane},
        {"flags", header.flags},   {"bitmap", report.bitmap},
        {"reporttag", report.tag}, {"state", static_cast<std::uint64_t>(report.state)},
        {"first", report.first},   {"second", report.second}};
    for (const auto& [key, value] : step.fields) {
      ASSERT_TRUE(got.count(key)) << "no field " << key;
      EXPECT_EQ(got.at(key), std::stoull(value, nullptr, 0)) << key;
    }
  }

  const Candidate& candidate_;
  std::unique_ptr<Dataplane> dataplane_;
  dataplane::JobSpec job_;
  std::optional<Sent> answer_;
  bool checked_ = true;
};

const std::vector<Case>& all_cases() {
  static const std::vector<Case> cases = read_cases(PASSING_CASES);
  return cases;
}

std::string test_name(const Case& each) {
  std::string name;
  for (const char c : each.name) name += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return name;
}

class Conformance : public testing::TestWithParam<std::tuple<std::size_t, std::size_t>> {};
INSTANTIATE_TEST_SUITE_P(Cases, Conformance,
                         testing::Combine(testing::Range<std::size_t>(0, candidates().size()),
                                          testing::Range<std::size_t>(0, all_cases().size())),
                         [](const auto& test) {
                           return std::string(candidates()[std::get<0>(test.param)].name) + "_" +
                                  test_name(all_cases()[std::get<1>(test.param)]);
                         });

TEST_P(Conformance, Case) {
  const Case& each = all_cases()[std::get<1>(GetParam())];
  const Candidate& candidate = candidates()[std::get<0>(GetParam())];
  if (candidate.needs_root && geteuid() != 0) GTEST_SKIP() << "needs root";
  Runner runner(candidate);
  for (const Step& step : each.steps) {
    SCOPED_TRACE(each.file + ":" + std::to_string(step.line) + ": " + step.text);
    runner.run(step);
    if (HasFatalFailure()) return;
  }
  runner.end();
}

// Every drop reason and every section with rules for a dataplane has its case.
TEST(ConformanceSuite, CoversEverySectionAndEveryReason) {
  std::set<std::string> sections;
  std::set<std::string> counted;
  for (const Case& each : all_cases()) {
    sections.insert(each.name.substr(0, each.name.find('-')));
    for (const Step& step : each.steps) {
      if (step.verb == "count" && step.words.at(1) != "0") counted.insert(step.words.at(0));
    }
  }
  for (const char* section :
       {"2", "2.1", "2.4", "2.5", "3", "4.1", "4.2", "4.3", "4.4", "8.2", "8.3", "8.4", "9.1"}) {
    EXPECT_TRUE(sections.count(section)) << "no case for section " << section;
  }
  for (std::size_t i = 0; i < wire::kDropReasons; ++i) {
    EXPECT_TRUE(counted.count(wire::to_string(static_cast<wire::Drop>(i))))
        << "no case counts " << wire::to_string(static_cast<wire::Drop>(i));
  }
}

}  // namespace
}  // namespace passing::conformance
