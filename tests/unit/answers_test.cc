// What a controller answers, read as docs/controller.md has it, and nothing else taken for it.
#include "net/answers.h"

#include <gtest/gtest.h>

namespace passing::net {
namespace {

TEST(Answers, TheStateOfAJob) {
  const auto state = read_job_state(
      R"({"state":"running","missing":[3,65535,70000],"addresses":["a:1","b:2"],"reason":"why \"so\"",)"
      R"("later":{"state":"ended","missing":[7],"addresses":["c"]},"more":[["d",1,-2,1.5,null,true]]})");
  ASSERT_TRUE(state);
  EXPECT_EQ(state->phase, JobState::Phase::running);
  EXPECT_EQ(state->missing, (std::vector<std::uint16_t>{3, 65535}));
  EXPECT_EQ(state->addresses, (std::vector<std::string>{"a:1", "b:2"}));
  EXPECT_EQ(state->reason, "why \"so\"");
}

TEST(Answers, EveryPhase) {
  using Phase = JobState::Phase;
  for (const auto& [name, phase] :
       {std::pair{"forming", Phase::forming}, {"running", Phase::running}, {"ended", Phase::ended}}) {
    const auto state =
        read_job_state(std::string(R"({"missing":[],"addresses":[],"reason":"","state":")") + name + "\"}");
    ASSERT_TRUE(state);
    EXPECT_EQ(state->phase, phase);
  }
}

TEST(Answers, WhatIsNone) {
  for (const char* text :
       {"", "{}", "[]", "7", "\"running\"", "{\"state\":\"running\"}", "<html></html>",
        R"({"state":"running","missing":[],"addresses":[],"reason":"")", R"([{"state":"running"}])",
        R"({"state":7,"missing":[],"addresses":[],"reason":""})",
        R"({"state":"running","missing":7,"addresses":[],"reason":""})",
        R"({"state":"running","missing":{"a":7},"addresses":[],"reason":""})"}) {
    EXPECT_FALSE(read_job_state(text)) << text;
  }
}

TEST(Answers, ARefusal) {
  EXPECT_EQ(read_refusal(R"({"error":"the key does not fit"})"), "the key does not fit");
  for (const char* text : {"", "{}", "no", R"({"error":7})", R"(["error"])", R"({"of":{"error":"x"}})"})
    EXPECT_FALSE(read_refusal(text)) << text;
}

TEST(Answers, AMember) { EXPECT_EQ(write_member(0xAB, 7), R"({"key":"00000000000000ab","rank":7})"); }

}  // namespace
}  // namespace passing::net
