// The switch in the kernel against the aggregator in userspace: the same random frames into both, and every
// output, counter and slot compared. docs/protocol.md sections 2 to 4. One frame in eight is damaged
// somewhere, so the programs must also agree with the network stack on what is a datagram for the switch at
// all.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <cstring>
#include <set>
#include <thread>

#include "conformance/bpf_dataplane.h"
#include "dataplane/aggregator.h"
#include "rehearse/random.h"
#include "seed.h"
#include "wire/packet.h"

namespace passing::conformance {
namespace {

using dataplane::Hook;
using rehearse::Random;

constexpr std::uint64_t kFrames = 500'000;  // by each family: a million for each hook
constexpr std::uint64_t kFramesPerEpoch = 2'000;
constexpr std::uint32_t kJobs = 2;
constexpr std::uint64_t kKey = 0x0123456789ABCDEF;
constexpr std::uint16_t kMembers = 3;
constexpr std::uint8_t kLanes = 2;
constexpr std::uint32_t kSlots = 2;
constexpr std::uint16_t kFewElements = 21;  // two strides and a rest

Address member_address(Family family, std::uint32_t job, std::uint16_t member, std::uint32_t lane) {
  Address address;
  address.ip[0] = static_cast<std::uint8_t>(0x20 + job);
  address.ip[15] = static_cast<std::uint8_t>(member);
  address.port = static_cast<std::uint16_t>(7000 + lane);
  return family == Family::four ? as_ipv4(address) : address;
}

class Pair {
 public:
  /// One frame in `damaged` is damaged.
  Pair(Hook hook, Family family, std::uint64_t seed, std::uint16_t elements, std::uint64_t damaged)
      : hook_(hook),
        family_(family),
        elements_(elements),
        damaged_(damaged),
        random_(seed),
        aggregator_({.elements = elements, .slots = kJobs * kLanes * kSlots}),
        runner_(hook, family, {.elements = elements, .slots = kJobs * kLanes * kSlots}) {
    for (std::uint32_t job = 0; job < kJobs; ++job) install(job);
  }

  void begin_again(std::uint32_t job) {
    for (std::uint16_t m = 0; m < kMembers; ++m) {
      aggregator_.jobs().depart(job, epochs_[job], m);
      runner_.dataplane().depart(job, epochs_[job], m);
    }
    ++epochs_[job];
    install(job);
  }

  void send_one() {
    const bool chosen = next_.has_value();  // by compare_slots()
    std::vector<std::byte> frame = write_frame(datagram());
    if (!chosen && random_.below(damaged_) == 0) damage(frame);
    const auto ours = read_frame(frame);
    const bool expected = ours && ours->to == switch_address(family_);
    dataplane::Verdict verdict;
    std::byte out[wire::packet_bytes(PASSING_MAX_ELEMENTS)];
    if (expected) verdict = aggregator_.handle(ours->from, ours->payload, out);
    const Run run = runner_.run(frame);
    if (!expected) {
      ++passed_;
      ASSERT_EQ(run.did, Run::Did::passed);
      ASSERT_EQ(run.frame, frame);
      return;
    }
    using Send = dataplane::Verdict::Send;
    ASSERT_EQ(run.did, verdict.send == Send::nothing  ? Run::Did::dropped
                       : verdict.send == Send::sender ? Run::Did::to_sender
                                                      : Run::Did::to_everyone);
    if (verdict.send == Send::nothing) return;
    ++answered_;
    wire::Header header;
    ASSERT_EQ(wire::parse({out, verdict.bytes}, wire::Direction::to_member, elements_, header),
              wire::Drop::none);
    if (header.type == wire::Type::result && verdict.send == Send::everyone) advance(header);
    const auto answer = read_frame(run.frame);
    ASSERT_TRUE(answer);
    ASSERT_EQ(answer->payload, std::vector<std::byte>(out, out + verdict.bytes));
    ASSERT_EQ(answer->from, switch_address(family_));
    ASSERT_EQ(answer->from_mac, ours->to_mac);
    if (verdict.send == Send::sender) {
      ASSERT_EQ(answer->to, ours->from);
      ASSERT_EQ(answer->to_mac, ours->from_mac);
    }
  }

  void compare_state() {
    const auto& here = aggregator_.counters();
    const auto there = runner_.dataplane().totals().counters;
    ASSERT_EQ(0, std::memcmp(&here, &there, sizeof here));
    for (std::uint32_t job = 0; job < kJobs; ++job) {
      const auto mine = aggregator_.progress(*aggregator_.jobs().find(job));
      const auto theirs = runner_.dataplane().progress(job);
      ASSERT_EQ(theirs.size(), 1U);
      ASSERT_EQ(mine.completed, theirs[0].completed);
      ASSERT_EQ(mine.slots_in_use, theirs[0].slots_in_use);
      ASSERT_EQ(mine.oldest, theirs[0].oldest);
      ASSERT_EQ(mine.missing, theirs[0].missing);
      ASSERT_EQ(mine.lag, theirs[0].lag);
    }
  }

  // Every version of every slot says the same of itself, and gives the same sums.
  void compare_slots() {
    for (std::uint32_t job = 0; job < kJobs; ++job) {
      for (std::uint8_t lane = 0; lane < kLanes; ++lane) {
        for (std::uint32_t at = 0; at < 4 * kSlots; ++at) {
          for (const auto type : {wire::Type::status_request, wire::Type::contribution}) {
            wire::Header header = plausible(job, lane);
            header.type = type;
            header.sequence = fronts_[job][lane] - 2 * kSlots + at;
            header.count =
                type == wire::Type::contribution ? count_of(header.sequence) : PASSING_REPORT_WORDS;
            header.tag = tag_of(header.sequence);
            next_ = packet_of(header);
            send_one();
            if (testing::Test::HasFatalFailure()) return;
          }
        }
      }
    }
  }

  std::uint64_t answered() const { return answered_; }
  std::uint64_t passed() const { return passed_; }
  const dataplane::Counters& counters() const { return aggregator_.counters(); }

 private:
  void install(std::uint32_t job) {
    dataplane::JobSpec spec{.job = job,
                            .epoch = epochs_[job],
                            .key = kKey + job,
                            .members = kMembers,
                            .lanes = kLanes,
                            .slots = kSlots,
                            .first_sequence = random_.below(2) == 0 ? 0U : 0U - 4 * kSlots,  // soon wraps
                            .addresses = {}};
    for (std::uint16_t m = 0; m < kMembers; ++m) {
      for (std::uint32_t l = 0; l < kLanes; ++l) spec.addresses.push_back(member_address(family_, job, m, l));
    }
    for (std::uint32_t l = 0; l < kLanes; ++l) {
      fronts_[job][l] = spec.first_sequence;
      done_[job][l].clear();
    }
    ASSERT_TRUE(aggregator_.jobs().install(spec));
    ASSERT_TRUE(runner_.install(spec));
  }

  std::uint16_t count_of(std::uint32_t sequence) const {
    return static_cast<std::uint16_t>(sequence * 7 % 23 * elements_ / 22);
  }
  static std::uint32_t tag_of(std::uint32_t sequence) { return sequence * 2654435761U; }

  wire::Header plausible(std::uint32_t job, std::uint8_t lane) {
    // Mostly what a member may send: up to S beyond the lowest chunk that is not complete.
    const std::uint32_t front = fronts_[job][lane];
    const auto sequence =
        static_cast<std::uint32_t>(random_.below(4) != 0 ? front + random_.below(kSlots)
                                                         : front + random_.below(5 * kSlots) - 3 * kSlots);
    return {.type = wire::Type::contribution,
            .job = job,
            .key = kKey + job,
            .epoch = epochs_[job],
            .sequence = sequence,
            .tag = tag_of(sequence),
            .word = static_cast<std::uint16_t>(random_.below(4) == 0 ? random_.below(255) : 0),
            .count = count_of(sequence),
            .member = static_cast<std::uint16_t>(random_.below(kMembers)),
            .lane = lane,
            .flags = static_cast<std::uint8_t>(random_.below(4) == 0 ? PASSING_FLAG_AGAIN : 0)};
  }

  void advance(const wire::Header& header) {
    auto& done = done_[header.job][header.lane];
    done.insert(header.sequence);
    std::uint32_t& front = fronts_[header.job][header.lane];
    while (done.erase(front) != 0) ++front;
  }

  struct Packet {
    std::vector<std::byte> bytes;
    Address from;
  };

  Packet packet_of(const wire::Header& header) {
    Packet packet;
    packet.bytes.resize(wire::packet_bytes(header.count));
    wire::write_header(header, packet.bytes.data());
    for (std::size_t i = PASSING_HEADER_BYTES; i < packet.bytes.size(); ++i)
      packet.bytes[i] = static_cast<std::byte>(random_.below(256));
    packet.from = member_address(family_, header.job, header.member, header.lane);
    return packet;
  }

  Packet random_packet() {
    wire::Header header = plausible(static_cast<std::uint32_t>(random_.below(kJobs)),
                                    static_cast<std::uint8_t>(random_.below(kLanes)));
    switch (random_.below(64)) {
      case 0:
        header.type = wire::Type::status_request;
        header.count = PASSING_REPORT_WORDS;
        break;
      case 1: header.epoch += 1; break;
      case 2: header.key ^= 1; break;
      case 3: header.sequence = static_cast<std::uint32_t>(random_.below(UINT32_MAX)); break;
      case 4: header.word = static_cast<std::uint16_t>(random_.below(65536)); break;
      case 5: header.member = static_cast<std::uint16_t>(random_.below(80)); break;
      case 6: header.lane = static_cast<std::uint8_t>(random_.below(80)); break;
      case 7: header.count = static_cast<std::uint16_t>(random_.below(elements_ + 3U)); break;
      case 8: header.job = static_cast<std::uint32_t>(random_.below(5)); break;
      default: break;
    }
    // These poison a slot for the rest of the epoch.
    if (random_.below(2000) == 0) {
      header.type = wire::Type::abort;
      header.count = 0;
    } else if (random_.below(2000) == 0) {
      header.tag ^= 1;
    }
    Packet packet = packet_of(header);
    if (random_.below(100) == 0) packet.from.port = static_cast<std::uint16_t>(packet.from.port + 1);
    return packet;
  }

  Datagram datagram() {
    Packet packet = next_ ? std::move(*next_) : random_packet();
    next_.reset();
    return {.from_mac = mac_of(packet.from),
            .to_mac = kSwitchMac,
            .from = packet.from,
            .to = switch_address(family_),
            .payload = std::move(packet.bytes)};
  }

  // Bits, lengths, ends; half of the time with a header checksum that is right again.
  void damage(std::vector<std::byte>& frame) {
    switch (random_.below(5)) {
      // The kernel refuses to run a program of tc on a frame that ends within its IP header.
      case 0: {
        const std::size_t least = hook_ == Hook::xdp ? 15 : 54;
        frame.resize(least + random_.below(frame.size() - least));
        break;
      }
      case 1: frame.resize(frame.size() + 1 + random_.below(40)); break;
      case 2: {
        // Lengths of IPv4, IPv6 or UDP.
        const std::size_t at = random_.below(3) == 0     ? 16
                               : random_.below(2) == 0   ? 18
                               : family_ == Family::four ? 38
                                                         : 58;
        const auto length = static_cast<std::uint16_t>(random_.below(200));
        frame[at] = static_cast<std::byte>(length >> 8);
        frame[at + 1] = static_cast<std::byte>(length & 0xFF);
        break;
      }
      case 3: {
        const std::size_t headers = std::min<std::size_t>(frame.size(), 98);
        frame[random_.below(headers)] = static_cast<std::byte>(random_.below(256));
        break;
      }
      default:
        for (std::uint64_t n = 1 + random_.below(3); n > 0; --n)
          frame[random_.below(frame.size())] ^= static_cast<std::byte>(1U << random_.below(8));
    }
    if (family_ == Family::four && frame.size() >= 34 && random_.below(2) == 0) {
      frame[24] = frame[25] = std::byte{0};
      std::uint32_t sum = 0;
      for (std::size_t i = 14; i < 34; i += 2)
        sum += std::to_integer<std::uint32_t>(frame[i]) << 8 | std::to_integer<std::uint32_t>(frame[i + 1]);
      while (sum > 0xFFFF) sum = (sum & 0xFFFF) + (sum >> 16);
      frame[24] = static_cast<std::byte>(~sum >> 8 & 0xFF);
      frame[25] = static_cast<std::byte>(~sum & 0xFF);
    }
  }

  Hook hook_;
  Family family_;
  std::uint16_t elements_;
  std::uint64_t damaged_;
  Random random_;
  dataplane::Aggregator aggregator_;
  BpfRunner runner_;
  std::uint32_t epochs_[kJobs] = {1, 1};
  std::uint32_t fronts_[kJobs][kLanes] = {};     // the lowest chunk that is not complete
  std::set<std::uint32_t> done_[kJobs][kLanes];  // those beyond it that are
  std::optional<Packet> next_;
  std::uint64_t answered_ = 0;
  std::uint64_t passed_ = 0;
};

class Differential : public testing::TestWithParam<std::tuple<Hook, Family>> {
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "needs root";
  }
};
INSTANTIATE_TEST_SUITE_P(Hooks, Differential,
                         testing::Combine(testing::Values(Hook::xdp, Hook::tc),
                                          testing::Values(Family::four, Family::six)),
                         [](const auto& test) {
                           return std::string(to_string(std::get<0>(test.param))) +
                                  (std::get<1>(test.param) == Family::four ? "_ipv4" : "_ipv6");
                         });

void run(Pair& pair, std::uint64_t frames) {
  for (std::uint64_t i = 1; i <= frames; ++i) {
    SCOPED_TRACE("frame " + std::to_string(i));
    pair.send_one();
    if (testing::Test::HasFatalFailure()) return;
    if (i % 100 == 0) pair.compare_state();
    if (i % kFramesPerEpoch == 0) {
      pair.compare_slots();
      pair.begin_again(static_cast<std::uint32_t>(i / kFramesPerEpoch % kJobs));
    }
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST_P(Differential, NoPacketIsTreatedOtherwiseThanInUserspace) {
  Pair pair(std::get<0>(GetParam()), std::get<1>(GetParam()), test::random_seed(), kFewElements, 8);
  run(pair, kFrames);
  if (HasFatalFailure()) return;
  // The mix is worth something only if everything happens in it.
  const auto& counters = pair.counters();
  EXPECT_GT(pair.answered(), kFrames / 5);
  EXPECT_GT(counters.results, kFrames / 100);
  EXPECT_GT(pair.passed(), kFrames / 50);
  for (const std::uint64_t each :
       {counters.results, counters.results_again, counters.duplicates, counters.notices,
        counters.notices_again, counters.status_answers, counters.retransmissions})
    EXPECT_GT(each, 10U);
  for (std::size_t i = 0; i < wire::kDropReasons; ++i)
    EXPECT_GT(counters.drops[i], 20U) << wire::to_string(static_cast<wire::Drop>(i));
}

TEST_P(Differential, NoDamagedFrameIsTakenThatUserspaceWouldRefuse) {
  Pair pair(std::get<0>(GetParam()), std::get<1>(GetParam()), test::random_seed(), kFewElements, 1);
  run(pair, kFrames);
  EXPECT_GT(pair.passed(), kFrames / 5);
}

// The largest packets that fit a page, which is all that the kernel runs a program on.
TEST_P(Differential, LargePacketsAreSummedAlike) {
  Pair pair(std::get<0>(GetParam()), std::get<1>(GetParam()), test::random_seed(), 704, 64);
  run(pair, 20'000);
  EXPECT_GT(pair.counters().results, 500U);
}

Datagram contribution(const dataplane::JobSpec& spec, std::uint16_t member, std::uint8_t lane,
                      std::uint32_t sequence, const std::vector<std::int32_t>& values) {
  const wire::Header header{.type = wire::Type::contribution,
                            .job = spec.job,
                            .key = spec.key,
                            .epoch = spec.epoch,
                            .sequence = sequence,
                            .tag = sequence,
                            .word = 0,
                            .count = static_cast<std::uint16_t>(values.size()),
                            .member = member,
                            .lane = lane,
                            .flags = 0};
  std::vector<std::byte> packet(wire::packet_bytes(values.size()));
  wire::write_header(header, packet.data());
  std::memcpy(packet.data() + PASSING_HEADER_BYTES, values.data(), 4 * values.size());
  const Address from = spec.addresses[std::size_t{member} * spec.lanes + lane];
  return {.from_mac = mac_of(from),
          .to_mac = kSwitchMac,
          .from = from,
          .to = switch_address(Family::four),
          .payload = std::move(packet)};
}

dataplane::JobSpec pair_of_members(std::uint8_t lanes, std::uint32_t slots) {
  dataplane::JobSpec spec{.job = 1,
                          .epoch = 1,
                          .key = kKey,
                          .members = 2,
                          .lanes = lanes,
                          .slots = slots,
                          .first_sequence = 0,
                          .addresses = {}};
  for (std::uint16_t m = 0; m < 2; ++m) {
    for (std::uint32_t l = 0; l < lanes; ++l) spec.addresses.push_back(member_address(Family::four, 1, m, l));
  }
  return spec;
}

class Programs : public testing::TestWithParam<Hook> {
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "needs root";
  }
};
INSTANTIATE_TEST_SUITE_P(Hooks, Programs, testing::Values(Hook::xdp, Hook::tc),
                         [](const auto& test) { return std::string(to_string(test.param)); });

// Section 4.4, as in userspace: a lane belongs to one port of the switch.
TEST_P(Programs, TakeALaneOnlyAtItsPort) {
  BpfRunner runner(GetParam(), Family::four, {.elements = 8, .slots = 16}, 2);
  const auto spec = pair_of_members(2, 2);
  ASSERT_TRUE(runner.install(spec));
  for (std::uint8_t lane = 0; lane < 2; ++lane) {
    for (std::uint16_t door = 0; door < 2; ++door) {
      Datagram datagram = contribution(spec, 0, lane, 0, {1, 2, 3});
      datagram.to.port = static_cast<std::uint16_t>(datagram.to.port + door);
      EXPECT_EQ(runner.run(write_frame(datagram)).did, conformance::Run::Did::dropped);
    }
  }
  const auto counters = runner.dataplane().totals().counters;
  EXPECT_EQ(counters.drops[static_cast<std::size_t>(wire::Drop::bad_lane)], 2U);
  EXPECT_EQ(counters.adds, 2U);
}

// Two processors, each with the packets of one member, at the same slots at the same time: every chunk is
// summed once, by whoever comes second, and exactly.
TEST_P(Programs, SumOnSeveralProcessorsAtOnce) {
  constexpr std::uint32_t kChunks = 20'000;
  constexpr std::uint32_t kWindow = 16;
  BpfRunner runner(GetParam(), Family::four, {.elements = 100, .slots = kWindow});
  const auto spec = pair_of_members(1, kWindow);
  ASSERT_TRUE(runner.install(spec));
  const auto values = [](std::uint16_t member, std::uint32_t k) {
    std::vector<std::int32_t> all(100 - k % 9);
    for (std::size_t i = 0; i < all.size(); ++i)
      all[i] = static_cast<std::int32_t>((member + 1) * (k * 131 + i));
    return all;
  };
  std::barrier together(2);
  std::atomic<std::uint32_t> results = 0;
  std::atomic<std::uint32_t> wrong = 0;
  const auto work = [&](std::uint16_t member) {
    for (std::uint32_t k = 0; k < kChunks; ++k) {
      if (k % kWindow == 0) together.arrive_and_wait();  // as the window does
      const auto done = runner.run(write_frame(contribution(spec, member, 0, k, values(member, k))));
      if (done.did != conformance::Run::Did::to_everyone) continue;
      ++results;
      std::vector<std::int32_t> sum = values(0, k);
      const auto other = values(1, k);
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += other[i];
      const auto answer = read_frame(done.frame);
      const bool right =
          answer && answer->payload.size() == wire::packet_bytes(sum.size()) &&
          std::memcmp(answer->payload.data() + PASSING_HEADER_BYTES, sum.data(), 4 * sum.size()) == 0;
      if (!right) ++wrong;
    }
  };
  std::thread first([&] { work(0); });
  work(1);
  first.join();
  EXPECT_EQ(results, kChunks);
  EXPECT_EQ(wrong, 0U);
}

// docs/dataplanes.md, "What the verifier costs": a kernel takes a million, and we promise a fifth of that.
TEST(Verifier, WalksFewInstructions) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  for (const auto& [hook, elements] : {std::pair{Hook::xdp, 704}, {Hook::tc, PASSING_MAX_ELEMENTS}}) {
    const BpfRunner runner(hook, Family::four,
                           {.elements = static_cast<std::uint16_t>(elements), .slots = 64});
    if (runner.dataplane().verified_instructions() == 0)
      GTEST_SKIP() << "the kernel does not say (before 5.16)";
    EXPECT_GT(runner.dataplane().verified_instructions(), 1000U);
    EXPECT_LT(runner.dataplane().verified_instructions(), 200'000U) << to_string(hook);
  }
}

}  // namespace
}  // namespace passing::conformance
