// The C interface: arguments, settings, errors, and one rank alone. Processes are in tests/integration.
#include "unit/c_api.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <thread>

#include "passing/passing.h"

namespace passing::test {
namespace {

TEST(CApi, SettingsAreCheckedByName) {
  const Settings settings;
  const auto set = [&](const char* name, const char* value) {
    return passing_config_set(settings.config, name, value);
  };
  for (const char* name :
       {"rank", "size", "local_rank", "local_size", "lanes", "slots", "timeout", "create_timeout", "job",
        "host", "strategy", "directory", "controller", "token", "servers"}) {
    EXPECT_EQ(set(name, "1"), PASSING_OK) << name;
  }
  EXPECT_EQ(set("timeout", "0.25"), PASSING_OK);
  expect_refused(set("ranks", "1"),
                 "unknown setting 'ranks'; there are rank, size, local_rank, local_size, job, host, rack, "
                 "local_domain, address, strategy, carrier, directory, controller, token, timeout, "
                 "create_timeout, lanes, slots, "
                 "servers, shared_bytes, link_rate, switch_rate, quiet");
  for (const char* bad : {"", "x", "-1", "1.5", "4294967296", "1 ", " 1", "0x1"}) {
    expect_refused(set("size", bad),
                   "size is '" + std::string(bad) + "': must be a whole number from 0 to 4294967295");
  }
  for (const char* bad : {"", "x", "1s", "0", "-1", "nan", "inf", "1e10"}) {
    expect_refused(set("timeout", bad), "timeout is '" + std::string(bad) +
                                            "': must be a number of seconds above 0, at most 1000000000");
  }
}

TEST(CApi, NullIsRefused) {
  const Alone alone;
  passing_comm* comm = nullptr;
  passing_config* config = alone.settings.config;
  expect_refused(passing_config_new(nullptr), "config is null: must be given");
  expect_refused(passing_config_from_environment(nullptr), "config is null: must be given");
  expect_refused(passing_config_set(nullptr, "rank", "1"), "config is null: must be given");
  expect_refused(passing_config_set(config, nullptr, "1"), "name is null: must be given");
  expect_refused(passing_config_set(config, "rank", nullptr), "rank is null: must be given");
  expect_refused(passing_config_set_exchange(nullptr, nullptr, nullptr), "config is null: must be given");
  expect_refused(passing_create(nullptr, &comm), "config is null: must be given");
  expect_refused(passing_create(config, nullptr), "comm is null: must be given");
  expect_refused(passing_split(nullptr, 0, 0, &comm), "comm is null: must be given");
  expect_refused(passing_split(alone.comm, 0, 0, nullptr), "part is null: must be given");
  expect_refused(passing_check(nullptr), "comm is null: must be given");
  expect_refused(passing_barrier(nullptr, 0, nullptr), "comm is null: must be given");
  expect_refused(passing_wait(nullptr), "op is null: must be given");
  std::uint32_t source = 0;
  expect_refused(passing_recv_from(nullptr, nullptr, 0, 0, 0, 0, &source), "comm is null: must be given");
  expect_refused(passing_recv_from(alone.comm, nullptr, 0, 0, 0, 0, nullptr),
                 "source is null: must be given");
  EXPECT_EQ(passing_rank(nullptr), std::numeric_limits<std::uint32_t>::max());
  EXPECT_EQ(passing_test(nullptr), -1);
  EXPECT_STREQ(passing_strategy(nullptr), "");
  passing_cancel(nullptr);
  EXPECT_EQ(passing_source(nullptr), PASSING_ANY_SOURCE);
  passing_op_free(nullptr);
  passing_free(nullptr);
  passing_config_free(nullptr);
  passing_blobs_set(nullptr, 0, nullptr, 0);
}

TEST(CApi, ValuesOutOfRangeAreRefusedBeforeAnythingBegins) {
  const Alone alone;
  float data = 1;
  const auto reduce = [&](int type, int reduction, double timeout) {
    passing_op* op = nullptr;
    const passing_status status =
        passing_all_reduce(alone.comm, &data, &data, 1, static_cast<passing_type>(type),
                           static_cast<passing_reduction>(reduction), timeout, &op);
    EXPECT_EQ(op, nullptr);
    return status;
  };
  expect_refused(reduce(0, 1, 0), "type is 0: must be PASSING_FLOAT32 (1) to PASSING_BOOLEAN (13)");
  expect_refused(reduce(257, 1, 0), "type is 257: must be PASSING_FLOAT32 (1) to PASSING_BOOLEAN (13)");
  expect_refused(reduce(1, 9, 0), "reduction is 9: must be PASSING_SUM (1) to PASSING_BIT_XOR (8)");
  expect_refused(reduce(1, 1, -1),
                 "timeout is -1 seconds: must be above 0, at most 1000000000, or 0 for the communicator's");
  expect_refused(reduce(1, 1, std::nan("")),
                 "timeout is nan seconds: must be above 0, at most 1000000000, or 0 for the communicator's");
  EXPECT_EQ(passing_check(alone.comm), PASSING_OK);
}

TEST(CApi, OneRankAlone) {
  const Alone alone;
  EXPECT_EQ(passing_rank(alone.comm), 0);
  EXPECT_EQ(passing_size(alone.comm), 1);
  EXPECT_EQ(passing_local_rank(alone.comm), 0);
  EXPECT_EQ(passing_local_size(alone.comm), 1);
  EXPECT_STRNE(passing_strategy(alone.comm), "");
  EXPECT_EQ(passing_check(alone.comm), PASSING_OK);

  const float input[2] = {1.25, -3};
  float output[2] = {};
  passing_op* op = nullptr;
  ASSERT_EQ(passing_all_reduce(alone.comm, input, output, 2, PASSING_FLOAT32, PASSING_AVERAGE, 5, &op),
            PASSING_OK);
  ASSERT_EQ(passing_wait(op), PASSING_OK) << passing_error();
  EXPECT_EQ(output[0], 1.25);
  EXPECT_EQ(output[1], -3);
  EXPECT_EQ(passing_broadcast(alone.comm, output, 2, PASSING_FLOAT32, 0, 0, nullptr), PASSING_OK);
  ASSERT_EQ(passing_barrier(alone.comm, 0, &op), PASSING_OK);
  while (passing_test(op) == 0) std::this_thread::yield();
  passing_cancel(op);  // too late
  EXPECT_EQ(passing_wait(op), PASSING_OK) << passing_error();
}

TEST(CApi, BuffersAndReasons) {
  const Alone alone;
  void* data = nullptr;
  ASSERT_EQ(passing_allocate(alone.comm, 4096, &data), PASSING_OK) << passing_error();
  std::memset(data, 0, 4096);
  EXPECT_EQ(passing_all_reduce(alone.comm, data, data, 1024, PASSING_FLOAT32, PASSING_SUM, 0, nullptr),
            PASSING_OK);
  EXPECT_EQ(passing_release(alone.comm, data), PASSING_OK) << passing_error();
  EXPECT_EQ(passing_release(alone.comm, data), PASSING_INVALID_ARGUMENT);
  EXPECT_NE(std::string(passing_error()).find("this communicator did not allocate it"), std::string::npos)
      << passing_error();
  EXPECT_EQ(passing_release(alone.comm, nullptr), PASSING_OK);
  EXPECT_EQ(passing_release(nullptr, nullptr), PASSING_OK);
  expect_refused(passing_release(nullptr, &data), "comm is null: must be given");
  EXPECT_EQ(passing_allocate(alone.comm, SIZE_MAX, &data), PASSING_NO_CAPACITY);
  EXPECT_EQ(data, nullptr);
  EXPECT_EQ(passing_allocate(nullptr, 1, &data), PASSING_INVALID_ARGUMENT);
  EXPECT_EQ(passing_allocate(alone.comm, 1, nullptr), PASSING_INVALID_ARGUMENT);
  EXPECT_STREQ(passing_explain(alone.comm, 10, PASSING_FLOAT32, PASSING_SUM),
               "all_reduce of 10 float32 (sum): auto, as set; 1 ranks");
  EXPECT_STREQ(passing_explain(alone.comm, 10, static_cast<passing_type>(99), PASSING_SUM), "");
  EXPECT_STREQ(passing_explain(nullptr, 10, PASSING_FLOAT32, PASSING_SUM), "");
}

TEST(CApi, SplitMakesGroupsOrNone) {
  const Alone alone;
  passing_comm* part = nullptr;
  ASSERT_EQ(passing_split(alone.comm, 3, 0, &part), PASSING_OK) << passing_error();
  ASSERT_NE(part, nullptr);
  EXPECT_EQ(passing_size(part), 1);
  EXPECT_EQ(passing_barrier(part, 0, nullptr), PASSING_OK) << passing_error();
  passing_free(part);
  ASSERT_EQ(passing_split(alone.comm, -1, 0, &part), PASSING_OK) << passing_error();
  EXPECT_EQ(part, nullptr);
}

TEST(CApi, ErrorsAreTheThreadsOwn) {
  expect_refused(passing_wait(nullptr), "op is null: must be given");
  std::thread([] { EXPECT_STREQ(passing_error(), ""); }).join();
  EXPECT_STREQ(passing_error(), "op is null: must be given");
  std::uint32_t rank = 0;
  EXPECT_EQ(passing_error_ranks(&rank, 1), 0);
}

/// An exchange that behaves as told.
struct Exchange {
  int status = 0;
  int calls = 0;
  void (*give)(const void* blob, std::size_t bytes, passing_blobs* all) =
      [](const void* blob, std::size_t bytes, passing_blobs* all) { passing_blobs_set(all, 0, blob, bytes); };

  static int call(void* context, const void* blob, std::size_t bytes, passing_blobs* all) {
    auto* self = static_cast<Exchange*>(context);
    ++self->calls;
    self->give(blob, bytes, all);
    return self->status;
  }
};

/// With two ranks, so that there is something to exchange.
passing_status create_by(Exchange& exchange) {
  const Settings settings;
  EXPECT_EQ(passing_config_set(settings.config, "size", "2"), PASSING_OK);
  EXPECT_EQ(passing_config_set_exchange(settings.config, Exchange::call, &exchange), PASSING_OK);
  passing_comm* comm = nullptr;
  const passing_status status = passing_create(settings.config, &comm);
  EXPECT_EQ(comm, nullptr);
  EXPECT_EQ(exchange.calls, 1);
  return status;
}

TEST(CApi, ExchangeFunctionsThatFail) {
  Exchange failing{.status = 7};
  EXPECT_EQ(create_by(failing), PASSING_UNREACHABLE);
  EXPECT_STREQ(passing_error(), "the exchange function returned 7");

  Exchange forgetful;
  expect_refused(create_by(forgetful), "the exchange function did not set the blob of rank 1");

  Exchange beyond{.give = [](const void* blob, std::size_t bytes, passing_blobs* all) {
    for (std::uint32_t rank = 0; rank < 3; ++rank) passing_blobs_set(all, rank, blob, bytes);
  }};
  expect_refused(create_by(beyond), "the exchange function set a blob of rank 2; there are 2 ranks");

  Exchange nothing{.give = [](const void* /*blob*/, std::size_t /*bytes*/, passing_blobs* all) {
    passing_blobs_set(all, 1, nullptr, 5);
  }};
  expect_refused(create_by(nothing), "the exchange function set a null blob of rank 1");

  Exchange throwing{.give = [](const void* /*blob*/, std::size_t /*bytes*/, passing_blobs* /*all*/) {
    throw std::runtime_error("thrown by the exchange");
  }};
  EXPECT_EQ(create_by(throwing), PASSING_SYSTEM_ERROR);
  EXPECT_STREQ(passing_error(), "thrown by the exchange");
}

TEST(CApi, Version) {
  EXPECT_EQ(std::string(passing_version()).find_first_not_of("0123456789."), std::string::npos);
}

}  // namespace
}  // namespace passing::test
