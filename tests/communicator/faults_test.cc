// Everything ends: by result, by an error that names who and what on every rank, or by cancellation.
// What needs real processes (kills, stops, forks) is in tests/integration/communicator_test.py.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "communicator/world.h"

namespace passing::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

class Faults : public testing::TestWithParam<std::string> {
 protected:
  // Everyone's next call must fail with the error of the group.
  static void expect_broken(World& world, ErrorCode code) {
    world.run([&](Communicator& comm) {
      const auto ended = comm.barrier().wait();
      ASSERT_FALSE(ended);
      EXPECT_EQ(ended.error().code, code) << ended.error().message;
      ASSERT_TRUE(comm.error());
      EXPECT_EQ(comm.error()->message, ended.error().message);
    });
  }
};

TEST_P(Faults, DifferentSizes) {
  World world(GetParam(), 4);
  world.run([](Communicator& comm) {
    std::vector<float> data(2000, 1);
    // Others may be in the next one, and find the disagreement, before this one has ended here.
    static_cast<void>(comm.all_reduce(data.data(), data.data(), 1000, DataType::float32).wait());
    const auto ended =
        comm.all_reduce(data.data(), data.data(), comm.rank() == 2 ? 1001 : 1000, DataType::float32).wait();
    ASSERT_FALSE(ended);
    EXPECT_EQ(ended.error().code, ErrorCode::disagreement) << ended.error().message;
    EXPECT_NE(ended.error().message.find("1001 float32"), std::string::npos) << ended.error().message;
    EXPECT_NE(ended.error().message.find("rank 2 at"), std::string::npos) << ended.error().message;
  });
  expect_broken(world, ErrorCode::disagreement);
}

TEST_P(Faults, DifferentTypesAndReductions) {
  for (const int what : {0, 1}) {
    World world(GetParam(), 3);
    world.run([what](Communicator& comm) {
      std::vector<float> data(10, 1);
      const bool odd = comm.rank() == 1;
      const auto ended = comm.all_reduce(data.data(), data.data(), 10,
                                         odd && what == 0 ? DataType::int32 : DataType::float32,
                                         odd && what == 1 ? Reduction::average : Reduction::sum)
                             .wait();
      ASSERT_FALSE(ended);
      EXPECT_EQ(ended.error().code, ErrorCode::disagreement) << ended.error().message;
      EXPECT_NE(ended.error().message.find(what == 0 ? "int32" : "average"), std::string::npos)
          << ended.error().message;
    });
  }
}

TEST_P(Faults, DifferentOperations) {
  World world(GetParam(), 3);
  world.run([](Communicator& comm) {
    std::vector<float> data(100'000, 1);
    const auto ended = comm.rank() == 0
                           ? comm.broadcast(data.data(), 7, DataType::float32, 1).wait()
                           : comm.all_reduce(data.data(), data.data(), data.size(), DataType::float32).wait();
    ASSERT_FALSE(ended);
    EXPECT_EQ(ended.error().code, ErrorCode::disagreement) << ended.error().message;
    EXPECT_NE(ended.error().message.find("called broadcast of 7 float32 from rank 1"), std::string::npos);
    EXPECT_NE(ended.error().message.find("called all_reduce of 100000 float32 (sum)"), std::string::npos);
  });
  expect_broken(world, ErrorCode::disagreement);
}

// A rank that has not called is named by the others, within the timeout and a little.
TEST_P(Faults, ARankThatDoesNotCall) {
  World world(GetParam(), 4, [](Config& config) { config.timeout = milliseconds(600); });
  world.run([](Communicator& comm) {
    std::vector<float> data(5000, 1);
    ASSERT_TRUE(comm.all_reduce(data.data(), data.data(), data.size(), DataType::float32).wait());
    if (comm.rank() == 3) return;
    const auto begin = steady_clock::now();
    const auto ended = comm.all_reduce(data.data(), data.data(), data.size(), DataType::float32).wait();
    ASSERT_FALSE(ended);
    EXPECT_EQ(ended.error().code, ErrorCode::deadline) << ended.error().message;
    EXPECT_NE(ended.error().message.find("rank 3 at"), std::string::npos) << ended.error().message;
    EXPECT_EQ(ended.error().members, std::vector<std::uint16_t>{3});
    EXPECT_LT(steady_clock::now() - begin, seconds(4));
  });
  expect_broken(world, ErrorCode::deadline);
}

TEST_P(Faults, BarrierNamesWhoHasNotCalled) {
  World world(GetParam(), 5, [](Config& config) { config.timeout = milliseconds(400); });
  world.run([](Communicator& comm) {
    if (comm.rank() == 1 || comm.rank() == 4) return;
    const auto ended = comm.barrier().wait();
    ASSERT_FALSE(ended);
    EXPECT_EQ(ended.error().members, (std::vector<std::uint16_t>{1, 4})) << ended.error().message;
    EXPECT_NE(ended.error().message.find("waiting for rank 1 at"), std::string::npos)
        << ended.error().message;
    EXPECT_NE(ended.error().message.find("not calling it"), std::string::npos) << ended.error().message;
  });
}

TEST_P(Faults, Cancel) {
  World world(GetParam(), 3);
  world.run([](Communicator& comm) {
    std::vector<float> data(5000, 1);
    if (comm.rank() == 2) return;
    const Operation op = comm.all_reduce(data.data(), data.data(), data.size(), DataType::float32);
    if (comm.rank() == 1) {
      EXPECT_FALSE(op.test());
      op.cancel();
    }
    const auto ended = op.wait();
    EXPECT_TRUE(op.test());
    ASSERT_FALSE(ended);
    EXPECT_EQ(ended.error().code, ErrorCode::cancelled) << ended.error().message;
    EXPECT_NE(ended.error().message.find("cancelled by rank 1 at"), std::string::npos)
        << ended.error().message;
    op.cancel();  // does no harm
  });
  expect_broken(world, ErrorCode::cancelled);
}

TEST_P(Faults, ReceivesThatNobodySends) {
  World world(GetParam(), 2);
  world.run([](Communicator& comm) {
    if (comm.rank() == 1) {
      char byte = 0;
      const auto late = comm.recv(&byte, 1, 0, 9, {.timeout = milliseconds(200)}).wait();
      ASSERT_FALSE(late);
      EXPECT_EQ(late.error().code, ErrorCode::deadline);
      EXPECT_NE(late.error().message.find("waiting for rank 0 at"), std::string::npos)
          << late.error().message;
      const Operation op = comm.recv(&byte, 1, 0, 8);
      op.cancel();
      ASSERT_FALSE(op.wait());
      EXPECT_EQ(op.wait().error().code, ErrorCode::cancelled);
    }
    // Neither broke the group.
    const auto ended = comm.barrier().wait();
    EXPECT_TRUE(ended) << ended.error().message;
  });
}

TEST_P(Faults, MessagesOfAnotherLength) {
  World world(GetParam(), 2);
  world.run([](Communicator& comm) {
    std::vector<char> data(100);
    if (comm.rank() == 0) {
      ASSERT_TRUE(comm.send(data.data(), 50, 1, 1).wait());
      ASSERT_TRUE(comm.send(data.data(), 100, 1, 2).wait());
    } else {
      for (const std::uint32_t tag : {1U, 2U}) {
        const auto ended = comm.recv(data.data(), tag == 1 ? 100 : 50, 0, tag).wait();
        ASSERT_FALSE(ended);
        EXPECT_EQ(ended.error().code, ErrorCode::disagreement);
        EXPECT_NE(ended.error().message.find(tag == 1 ? "sent 50 bytes" : "sent 100 bytes"),
                  std::string::npos)
            << ended.error().message;
      }
    }
    const auto ended = comm.barrier().wait();
    EXPECT_TRUE(ended) << ended.error().message;
  });
}

// A communicator that is closed early: harmless if nothing needs it any more, else an error that names it.
TEST_P(Faults, OneLeavesEarly) {
  World world(GetParam(), 3);
  world.run([](Communicator& comm) {
    std::vector<float> data(100'000, 1);
    const auto ended = comm.all_reduce(data.data(), data.data(), data.size(), DataType::float32).wait();
    ASSERT_TRUE(ended) << ended.error().message;
  });
  std::thread leaver([&] { world.drop(1); });
  std::this_thread::sleep_for(milliseconds(100));
  parallel(2, [&](std::uint32_t i) {
    const auto ended = world.at(2 * i).barrier({.timeout = seconds(1)}).wait();
    ASSERT_FALSE(ended);
    EXPECT_EQ(ended.error().code, ErrorCode::peer_lost) << ended.error().message;
    EXPECT_NE(ended.error().message.find("rank 1 at"), std::string::npos) << ended.error().message;
  });
  leaver.join();
}

TEST_P(Faults, ClosedDuringAnOperation) {
  World world(GetParam(), 3);
  std::vector<float> data(5000, 1);
  const Operation op = world.at(0).all_reduce(data.data(), data.data(), data.size(), DataType::float32);
  world.drop(0);
  const auto ended = op.wait();
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code, ErrorCode::cancelled) << ended.error().message;
  parallel(2, [&](std::uint32_t i) {
    const auto later = world.at(1 + i).barrier().wait();
    ASSERT_FALSE(later);
    EXPECT_NE(later.error().message.find("rank 0 at"), std::string::npos) << later.error().message;
  });
}

TEST_P(Faults, BadArguments) {
  World world(GetParam(), 2);
  Communicator& comm = world.at(0);
  float value = 0;
  const auto refused = [](const Operation& op, const std::string& sentence) {
    const auto ended = op.wait();
    ASSERT_FALSE(ended) << sentence;
    EXPECT_EQ(ended.error().code, ErrorCode::invalid_argument);
    EXPECT_NE(ended.error().message.find(sentence), std::string::npos) << ended.error().message;
  };
  refused(comm.all_reduce(nullptr, &value, 1, DataType::float32), "the input buffer is null");
  refused(comm.all_reduce(&value, nullptr, 1, DataType::float32), "the output buffer is null");
  refused(comm.all_reduce(&value, &value, static_cast<std::size_t>(-1), DataType::float32),
          "was it negative?");
  refused(comm.all_reduce(&value, &value, 1, static_cast<DataType>(77)),
          "type is 77: must be one of DataType");
  refused(comm.all_reduce(&value, &value, 1, DataType::float32, static_cast<Reduction>(9)), "reduction is 9");
  std::vector<float> both(10);
  refused(comm.all_reduce(both.data(), both.data() + 1, 5, DataType::float32), "overlap");
  refused(comm.broadcast(&value, 1, DataType::float32, 2), "root is 2: must be a rank, 0 to 1");
  refused(comm.broadcast(nullptr, 1, DataType::float32, 0), "the output buffer is null");
  refused(comm.send(&value, 4, 2, 0), "the peer is rank 2: must be another rank, 0 to 1");
  refused(comm.send(&value, 4, 0, 0), "the peer is rank 0");
  refused(comm.recv(&value, 4, 1, 1U << 31), "must be below 2^31");
  refused(comm.recv(nullptr, 4, 1, 0), "the buffer is null");
  // Nothing of this was an operation of the group.
  world.run([](Communicator& each) { EXPECT_TRUE(each.barrier().wait()); });
}

TEST(Create, StrategiesDiffer) {
  Table table(2);
  parallel(2, [&](std::uint32_t rank) {
    Config config;
    config.rank = rank;
    config.size = 2;
    config.strategy = rank == 0 ? "ring" : "in_network";
    config.controller = rank == 0 ? "" : "127.0.0.1:1";
    config.token = "a token for tests";
    config.exchange = table.exchange(rank);
    const auto made = Communicator::create(config);
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code, ErrorCode::disagreement) << made.error().message;
    EXPECT_NE(made.error().message.find("strategy"), std::string::npos);
  });
}

TEST_P(Faults, Split) {
  World world(GetParam(), 5);
  world.run([](Communicator& comm) {
    // Even and odd, in reverse order; rank 4 joins none.
    auto part =
        comm.split(comm.rank() == 4 ? -1 : static_cast<int>(comm.rank() % 2), -static_cast<int>(comm.rank()));
    ASSERT_TRUE(part) << part.error().message;
    if (comm.rank() == 4) {
      EXPECT_FALSE(*part);
    } else {
      ASSERT_TRUE(*part);
      Communicator& sub = **part;
      EXPECT_EQ(sub.size(), 2U);
      EXPECT_EQ(sub.rank(), comm.rank() < 2 ? 1U : 0U);
      std::int32_t sum = static_cast<std::int32_t>(comm.rank());
      ASSERT_TRUE(sub.all_reduce(&sum, &sum, 1, DataType::int32).wait());
      EXPECT_EQ(sum, comm.rank() % 2 == 0 ? 2 : 4);
      auto alone = sub.split(static_cast<int>(sub.rank()));
      ASSERT_TRUE(alone) << alone.error().message;
      EXPECT_EQ((*alone)->size(), 1U);
      ASSERT_TRUE((*alone)->all_reduce(&sum, &sum, 1, DataType::int32).wait());
    }
    const auto ended = comm.barrier().wait();
    EXPECT_TRUE(ended) << ended.error().message;
  });
}

// A rank that has done its part may go, although others have not begun theirs.
TEST_P(Faults, TheRootLeavesBeforeOthersBegin) {
  World world(GetParam(), 4);
  parallel(4, [&](std::uint32_t rank) {
    std::this_thread::sleep_for(milliseconds(rank == 3 ? 300 : rank == 2 ? 600 : 0));
    int value = rank == 0 ? 7 : 0;
    const auto ended = world.at(rank).broadcast(&value, 1, DataType::int32, 0).wait();
    ASSERT_TRUE(ended) << ended.error().message;
    EXPECT_EQ(value, 7);
    if (rank == 0) world.drop(0);
  });
}

TEST_P(Faults, ReceiveFromARankThatHasLeft) {
  World world(GetParam(), 2);
  char byte = 'x';
  std::thread leaver([&] {
    ASSERT_TRUE(world.at(1).send(&byte, 1, 0, 1).wait());
    world.drop(1);
  });
  std::this_thread::sleep_for(milliseconds(300));
  char got = 0;
  EXPECT_TRUE(world.at(0).recv(&got, 1, 1, 1).wait());  // what it sent is there
  const auto begin = steady_clock::now();
  const auto ended = world.at(0).recv(&got, 1, 1, 2).wait();
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code, ErrorCode::peer_lost) << ended.error().message;
  EXPECT_LT(steady_clock::now() - begin, seconds(3));
  leaver.join();
}

TEST_P(Faults, TimeoutsOfAnyLength) {
  World world(GetParam(), 2);
  world.run([](Communicator& comm) {
    if (comm.rank() == 1) std::this_thread::sleep_for(milliseconds(300));
    EXPECT_TRUE(comm.barrier({.timeout = milliseconds::max()}).wait());
    // The communicator's.
    char byte = 0;
    if (comm.rank() == 1) std::this_thread::sleep_for(milliseconds(300));
    const Operation op = comm.rank() == 1 ? comm.send(&byte, 1, 0, 1)
                                          : comm.recv(&byte, 1, 1, 1, {.timeout = milliseconds(0)});
    const auto ended = op.wait();
    EXPECT_TRUE(ended) << ended.error().message;
  });
  const auto ended = world.at(0).barrier({.timeout = milliseconds(-5)}).wait();
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code, ErrorCode::deadline);
}

// An operation that ends at once is announced all the same, whether its rank stays or goes.
TEST(Announcements, OfWhatEndsAtOnce) {
  for (const bool leaves : {false, true}) {
    for (int round = 0; round < 5; ++round) {
      World world("ring", 3, [](Config& config) { config.timeout = seconds(10); });
      world.run([](Communicator& comm) { ASSERT_TRUE(comm.barrier().wait()); });
      std::this_thread::sleep_for(milliseconds(round));
      ASSERT_TRUE(world.at(0).all_reduce(nullptr, nullptr, 0, DataType::float32).wait());
      if (leaves) world.drop(0);
      const auto begin = steady_clock::now();
      const auto ended = world.at(1).barrier().wait();
      ASSERT_FALSE(ended);
      EXPECT_EQ(ended.error().code, ErrorCode::disagreement) << ended.error().message;
      EXPECT_LT(steady_clock::now() - begin, seconds(3));
    }
  }
}

// One that nobody waits for meets its deadline too, also right after one that was waited for.
TEST(Announcements, NobodyWaits) {
  World world("ring", 2);
  for (const std::size_t count : {16U, 1'000'000U, 4'000'000U}) {
    std::vector<float> data(count);
    world.run([](Communicator& comm) {
      for (int i = 0; i < 50; ++i) ASSERT_TRUE(comm.barrier().wait());
    });
    std::vector<float> other(count);
    const auto theirs = world.at(1).all_reduce(other.data(), other.data(), count, DataType::float32);
    const auto ours = world.at(0).all_reduce(data.data(), data.data(), count, DataType::float32);
    const auto begin = steady_clock::now();
    while (!ours.test() || !theirs.test()) {
      ASSERT_LT(steady_clock::now() - begin, seconds(10));
      std::this_thread::sleep_for(milliseconds(1));
    }
    ASSERT_TRUE(ours.wait());
  }
  std::vector<float> data(16);
  for (int i = 0; i < 50; ++i) world.run([](Communicator& comm) { ASSERT_TRUE(comm.barrier().wait()); });
  const auto alone = world.at(0).all_reduce(data.data(), data.data(), 16, DataType::float32, Reduction::sum,
                                            {milliseconds(200)});
  const auto begin = steady_clock::now();
  while (!alone.test()) {
    ASSERT_LT(steady_clock::now() - begin, seconds(10));
    std::this_thread::sleep_for(milliseconds(1));
  }
  EXPECT_FALSE(alone.wait());
}

// However many are missing, everyone hears the same.
TEST(Crowd, ManyMissing) {
  World world("ring", 40, [](Config& config) { config.timeout = milliseconds(300); });
  const auto ended = world.at(0).barrier().wait();
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().members.size(), 39U);
  EXPECT_NE(ended.error().message.find("and 31 more"), std::string::npos) << ended.error().message;
  for (const std::uint32_t rank : {1U, 20U, 39U}) {
    const auto later = world.at(rank).barrier().wait();
    ASSERT_FALSE(later);
    EXPECT_EQ(later.error().message, ended.error().message);
  }
}

// What is said about the group does not wait behind data.
TEST(Crowd, BlameIsNotHeldUpByData) {
  World world("ring", 3);
  std::vector<char> large(400'000'000);
  std::vector<char> room(large.size());
  const Operation out = world.at(0).send(large.data(), large.size(), 1, 1);
  const Operation in = world.at(1).recv(room.data(), room.size(), 0, 1);
  const Operation waits = world.at(0).barrier();
  const auto ended = world.at(1).barrier({.timeout = milliseconds(50)}).wait();
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().members, std::vector<std::uint16_t>{2}) << ended.error().message;
  static_cast<void>(out.wait());
  static_cast<void>(in.wait());
  static_cast<void>(waits.wait());
}

TEST(Crowd, PartsOfAJobWithALongName) {
  World world("ring", 2, [](Config& config) { config.job = std::string(100, 'j'); });
  world.run([](Communicator& comm) {
    auto part = comm.split(0);
    ASSERT_TRUE(part) << part.error().message;
    EXPECT_TRUE((*part)->barrier().wait());
  });
}

INSTANTIATE_TEST_SUITE_P(Strategies, Faults, testing::ValuesIn(strategies()),
                         [](const auto& each) { return each.param; });

}  // namespace
}  // namespace passing::test
