// Ranks in threads of their own exchange what a seed says, and get what a plain model says.
#include <atomic>
#include <cstring>
#include <map>
#include <random>
#include <thread>

#include "carrier/carriers.h"
#include "seed.h"

namespace passing::net {
namespace {

// Of all messages of a rank to another with one tag, in order. Tags name their source, as everywhere.
struct Planned {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::uint64_t tag = 0;
  std::vector<char> data;
};

constexpr std::uint64_t kSource = 0xFFFF;
constexpr std::uint64_t kFromAnyone = std::uint64_t{9} << 32;

class Threads : public Carriers {
 protected:
  static std::vector<Planned> plan(std::mt19937& random, std::uint32_t size) {
    std::vector<Planned> all(300);
    for (std::size_t i = 0; i < all.size(); ++i) {
      Planned& each = all[i];
      each.from = static_cast<std::uint32_t>(random() % size);
      each.to = static_cast<std::uint32_t>((each.from + 1 + random() % (size - 1)) % size);
      const bool any = random() % 5 == 0;
      each.tag = (any ? kFromAnyone : std::uint64_t{random() % 4} << 16) | each.from;
      const std::size_t kind = random() % 4;
      each.data = pattern(any         ? 1000
                          : kind == 0 ? random() % 3
                          : kind == 1 ? kSmall - 2 + random() % 5
                          : kind == 2 ? random() % 2000
                                      : random() % 700'000,
                          i);
      // The number, where a receive from anyone finds it.
      if (any) std::memcpy(each.data.data(), &i, sizeof i);
    }
    return all;
  }

  // One rank's part. Returns what went wrong.
  static std::string take_part(Carrier& carrier, std::uint32_t rank, const std::vector<Planned>& all,
                               unsigned seed) {
    std::mt19937 random(seed + rank);
    struct Received {
      const Planned* planned;  // none: from anyone
      std::vector<char> room;
      TransferPtr transfer;
    };
    std::vector<const Planned*> sends;
    std::vector<Received> receives;
    for (const Planned& each : all) {
      if (each.from == rank) sends.push_back(&each);
      if (each.to != rank) continue;
      const bool any = (each.tag & ~kSource) == kFromAnyone;
      receives.push_back({any ? nullptr : &each, std::vector<char>(each.data.size()), nullptr});
    }
    std::vector<TransferPtr> sent;
    std::size_t posted = 0;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    const auto over = [&] {
      return std::all_of(receives.begin(), receives.end(), [](auto& each) { return each.transfer->ended(); });
    };
    while (sent.size() < sends.size() || posted < receives.size() || !over() || !all_ended(sent)) {
      if (std::chrono::steady_clock::now() > end) return "it takes too long";
      const std::size_t left = sends.size() - sent.size() + receives.size() - posted;
      if (left > 0 && random() % left < sends.size() - sent.size()) {
        const Planned& each = *sends[sent.size()];
        sent.push_back(carrier.send(each.to, each.tag, each.data.data(), each.data.size()));
      } else if (left > 0) {
        Received& each = receives[posted++];
        const std::uint64_t tag = each.planned != nullptr ? each.planned->tag : kFromAnyone;
        each.transfer = carrier.recv(each.planned != nullptr ? each.planned->from : rank, tag,
                                     each.planned != nullptr ? kAll : ~kSource, each.room.data(),
                                     each.room.size(), each.planned != nullptr && (tag >> 16) % 2 == 0);
      }
      if (left > 0 && random() % 3 > 0) continue;
      // Asleep until something comes: a carrier that does not wake its owner is found out here.
      pollfd source{carrier.descriptor(), POLLIN, 0};
      if (left == 0 && carrier.arm() && !(over() && all_ended(sent))) ::poll(&source, 1, 60'000);
      carrier.progress();
    }
    std::map<std::uint32_t, std::size_t> last;  // from anyone, by source
    for (const Received& each : receives) {
      if (each.transfer->status != Status::done) return "a receive has failed";
      const Planned* planned = each.planned;
      if (planned == nullptr) {
        std::size_t number = 0;
        std::memcpy(&number, each.room.data(), sizeof number);
        if (number >= all.size() || all[number].tag != each.transfer->tag) return "it is none of these";
        planned = &all[number];
        if (last.contains(planned->from) && last[planned->from] >= number) return "the order is wrong";
        last[planned->from] = number;
      }
      if (each.room != planned->data) return "the data are wrong";
    }
    return "";
  }
};

TEST_P(Threads, GetWhatTheModelSays) {
  const unsigned first = test::random_seed();
  for (unsigned seed = first; seed < first + 10; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    ranks.clear();
    addresses.clear();
    const std::uint32_t size = 2 + random() % 4;
    make(size);
    const std::vector<Planned> all = plan(random, size);
    std::vector<std::string> problems(size);
    std::vector<std::thread> threads;
    std::atomic<std::uint32_t> ready = 0;
    for (std::uint32_t r = 0; r < size; ++r) {
      threads.emplace_back([&, r] {
        problems[r] = take_part(*ranks[r], r, all, seed);
        // What others have not heard yet is still to be sent.
        ++ready;
        while (ready < size) ranks[r]->progress();
        ranks[r].reset();
      });
    }
    for (auto& each : threads) each.join();
    for (const auto& each : problems) EXPECT_EQ(each, "");
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Over, Threads, testing::ValuesIn(carriers()), kind_name);

}  // namespace
}  // namespace passing::net
