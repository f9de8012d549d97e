// What tests of the C interface share.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "passing/passing.h"

namespace passing::test {

struct Settings {
  Settings() { EXPECT_EQ(passing_config_new(&config), PASSING_OK); }
  ~Settings() { passing_config_free(config); }
  Settings(const Settings&) = delete;
  Settings& operator=(const Settings&) = delete;
  passing_config* config = nullptr;
};

struct Alone {
  Alone() { EXPECT_EQ(passing_create(settings.config, &comm), PASSING_OK) << passing_error(); }
  ~Alone() { passing_free(comm); }
  Alone(const Alone&) = delete;
  Alone& operator=(const Alone&) = delete;
  Settings settings;
  passing_comm* comm = nullptr;
};

inline void expect_refused(passing_status status, const std::string& message) {
  EXPECT_EQ(status, PASSING_INVALID_ARGUMENT);
  EXPECT_EQ(passing_error(), message);
}

}  // namespace passing::test
