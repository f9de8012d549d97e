// docs/protocol.md section 3.
#include "dataplane/jobs.h"

#include <gtest/gtest.h>

namespace passing::dataplane {
namespace {

JobSpec job(std::uint32_t id, std::uint32_t slots, std::uint32_t epoch = 1, std::uint16_t members = 2) {
  return {.job = id,
          .epoch = epoch,
          .key = 1,
          .members = members,
          .lanes = 1,
          .slots = slots,
          .first_sequence = 0,
          .addresses = std::vector<Address>(members)};
}

TEST(Jobs, Section31AJobThatDoesNotFitIsToldHowManySlotsAreFree) {
  JobTable table({.elements = 4, .slots = 8});
  ASSERT_TRUE(table.install(job(1, 4)));
  const auto refused = table.install(job(2, 8));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::no_capacity);
  EXPECT_EQ(refused.error().message, "the job asks for 8 slots, of 4 free");
  EXPECT_TRUE(table.install(job(3, 4)));
  EXPECT_EQ(table.free_slots(), 0U);
}

TEST(Jobs, Section31JobsNeverShareSlots) {
  JobTable table({.elements = 4, .slots = 16});
  const Job* first = *table.install(job(1, 4));
  const Job* second = *table.install(job(2, 8));
  EXPECT_EQ(first->first_slot, 0U);
  EXPECT_EQ(second->first_slot, 4U);
  for (const std::uint16_t m : {std::uint16_t{0}, std::uint16_t{1}}) table.depart(1, 1, m);
  EXPECT_EQ((*table.install(job(3, 4)))->first_slot, 0U) << "the gap is used again";
  EXPECT_FALSE(table.install(job(4, 8)));
}

TEST(Jobs, Section32InstallationsHaveNumbersOfTheirOwn) {
  JobTable table({.elements = 4, .slots = 4});
  const auto first = (*table.install(job(1, 4)))->installation;
  for (const std::uint16_t m : {std::uint16_t{0}, std::uint16_t{1}}) table.depart(1, 1, m);
  const auto second = (*table.install(job(1, 4, 1)))->installation;
  EXPECT_NE(first, 0U);
  EXPECT_NE(first, second);
}

TEST(Jobs, Section33OneDepartureFreesNothing) {
  JobTable table({.elements = 4, .slots = 4});
  ASSERT_TRUE(table.install(job(1, 4)));
  table.depart(1, 1, 0);
  table.depart(1, 1, 0);
  table.depart(1, 2, 1);   // another epoch
  table.depart(2, 1, 1);   // another job
  table.depart(1, 1, 40);  // nobody
  EXPECT_EQ(table.free_slots(), 0U);
  table.depart(1, 1, 1);
  EXPECT_EQ(table.free_slots(), 4U);
}

TEST(Jobs, Section34ANewEpochWaitsUntilEveryMemberOfTheOldOneHasDeparted) {
  JobTable table({.elements = 4, .slots = 16});
  ASSERT_TRUE(table.install(job(1, 4, 1)));
  table.depart(1, 1, 0);
  const auto refused = table.install(job(1, 4, 2));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "job 1 still has members in epoch 1: end that epoch first");
  table.depart(1, 1, 1);
  EXPECT_TRUE(table.install(job(1, 4, 2)));
}

TEST(Jobs, BadSpecificationsAreNamed) {
  JobTable table({.elements = 4, .slots = 16});
  const auto complaint = [&](JobSpec spec) { return table.install(std::move(spec)).error().message; };
  EXPECT_EQ(complaint(job(1, 3)), "slots is 3: must be a power of two from 1 to 32768");
  EXPECT_EQ(complaint(job(1, 0)), "slots is 0: must be a power of two from 1 to 32768");
  EXPECT_EQ(complaint(job(1, 4, 1, 0)), "members is 0: must be 1 to 64");
  EXPECT_EQ(complaint(job(1, 4, 1, 65)), "members is 65: must be 1 to 64");
  JobSpec odd = job(1, 4);
  odd.first_sequence = 4;
  EXPECT_EQ(complaint(odd), "first_sequence is 4: must be a multiple of twice the slots");
  odd = job(1, 4);
  odd.lanes = 0;
  EXPECT_EQ(complaint(odd), "lanes is 0: must be 1 to 64");
  odd = job(1, 4);
  odd.addresses.pop_back();
  EXPECT_EQ(complaint(odd), "addresses is 1: must be members x lanes in number");
}

}  // namespace
}  // namespace passing::dataplane
