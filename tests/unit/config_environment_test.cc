// include/passing/config.h: what launchers and users say in the environment.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "communicator/settings.h"
#include "passing/config.h"
#include "temporary.h"

extern char** environ;

namespace passing {
namespace {

// Whether a variable is one that from_environment may look at.
bool concerns_us(const std::string& name) {
  for (const char* prefix :
       {"PASSING_", "OMPI_", "PMIX_", "SLURM_", "PMI_", "MPI_", "TORCHELASTIC_", "MASTER_"}) {
    if (name.starts_with(prefix)) return true;
  }
  return name == "RANK" || name == "WORLD_SIZE" || name == "LOCAL_RANK" || name == "LOCAL_WORLD_SIZE";
}

// Runs each test without any launcher's variables, and puts back what was there.
class Environment : public testing::Test {
 protected:
  void SetUp() override {
    for (char** entry = environ; *entry != nullptr; ++entry) {
      const std::string text = *entry;
      const std::string name = text.substr(0, text.find('='));
      if (concerns_us(name)) before_.emplace_back(name, text.substr(name.size() + 1));
    }
    for (const auto& [name, value] : before_) unsetenv(name.c_str());
  }
  void TearDown() override {
    for (const std::string& name : set_) unsetenv(name.c_str());
    for (const auto& [name, value] : before_) setenv(name.c_str(), value.c_str(), 1);
  }

  void set(const std::string& name, const std::string& value) {
    set_.push_back(name);
    setenv(name.c_str(), value.c_str(), 1);
  }
  void set_ranks(const std::string& rank, const std::string& size) {
    set("PASSING_RANK", rank);
    set("PASSING_SIZE", size);
  }
  void set_torchrun() {
    set("RANK", "5");
    set("WORLD_SIZE", "8");
    set("LOCAL_RANK", "1");
    set("LOCAL_WORLD_SIZE", "4");
  }
  void set_open_mpi() {
    set("OMPI_COMM_WORLD_RANK", "6");
    set("OMPI_COMM_WORLD_SIZE", "9");
    set("OMPI_COMM_WORLD_LOCAL_RANK", "2");
    set("OMPI_COMM_WORLD_LOCAL_SIZE", "3");
  }
  void set_slurm() {
    set("SLURM_PROCID", "7");
    set("SLURM_NTASKS", "10");
    set("SLURM_LOCALID", "3");
    set("SLURM_NTASKS_PER_NODE", "5");
  }
  // A task of the step 5.0, which is not this process.
  void set_step(const std::string& rank, const std::string& size, const std::string& on_node) {
    set("SLURM_JOB_ID", "5");
    set("SLURM_STEP_ID", "0");
    set("SLURM_TASK_PID", std::to_string(getppid()));
    set("SLURM_PROCID", rank);
    set("SLURM_NTASKS", size);
    set("SLURM_LOCALID", "0");
    set("SLURM_NODEID", "0");
    set("SLURM_STEP_TASKS_PER_NODE", on_node);
  }
  void set_mpich() {
    set("PMI_RANK", "8");
    set("PMI_SIZE", "11");
    set("MPI_LOCALRANKID", "4");
    set("MPI_LOCALNRANKS", "6");
  }

  // Rank, size, local rank and local size, or what was wrong.
  static std::string ranks() {
    const auto config = Config::from_environment();
    if (!config) return config.error().message;
    return std::to_string(config->rank) + "/" + std::to_string(config->size) + " " +
           std::to_string(config->local_rank) + "/" + std::to_string(config->local_size);
  }
  static std::string complaint() {
    const auto config = Config::from_environment();
    return config ? "" : config.error().message;
  }
  static std::string job() { return Config::from_environment().value().job; }

 private:
  std::vector<std::pair<std::string, std::string>> before_;
  std::vector<std::string> set_;
};

TEST_F(Environment, NothingSetIsAnErrorThatSaysHow) {
  EXPECT_EQ(
      complaint(),
      "nothing says which rank this process is: set PASSING_RANK and PASSING_SIZE (0 and 1 for a process of "
      "its own), or start it with torchrun, mpirun or srun");
}

TEST_F(Environment, EveryLauncherIsUnderstood) {
  set_slurm();
  EXPECT_EQ(ranks(), "7/10 3/5");
  set_mpich();
  EXPECT_EQ(ranks(), "8/11 4/6");
  set_open_mpi();
  EXPECT_EQ(ranks(), "6/9 2/3");
  set_torchrun();
  EXPECT_EQ(ranks(), "5/8 1/4");
  set_ranks("4", "7");
  EXPECT_EQ(ranks(), "4/7 0/1");
  set("PASSING_LOCAL_RANK", "3");
  set("PASSING_LOCAL_SIZE", "4");
  EXPECT_EQ(ranks(), "4/7 3/4");
}

// As Slurm 22.05 and MPICH 4.0 set them: the launcher that is nearest to the process says its rank.
TEST_F(Environment, MpichInsideAStepOfSlurm) {
  set_step("0", "1", "1");  // a proxy of mpiexec: all of its ranks have its variables
  set("PMI_RANK", "1");
  set("PMI_SIZE", "2");
  set("MPI_LOCALRANKID", "1");
  set("MPI_LOCALNRANKS", "2");
  EXPECT_EQ(ranks(), "1/2 1/2");
  EXPECT_EQ(job(), "5.0");
}

TEST_F(Environment, SlurmSpeaksPmi2) {
  set_step("3", "4", "2");  // of a shell that srun has started: the task is not this process
  set("SLURM_LOCALID", "1");
  set("PMI_RANK", "3");
  set("PMI_SIZE", "4");
  set("PMI_JOBID", "5.0");
  EXPECT_EQ(ranks(), "3/4 1/2");
}

TEST_F(Environment, SlurmInsideAnotherLauncher) {
  set_open_mpi();
  set_mpich();
  set_step("1", "2", "1");
  EXPECT_EQ(ranks(), "6/9 2/3");
  set("SLURM_TASK_PID", std::to_string(getpid()));
  EXPECT_EQ(ranks(), "1/2 0/1");
  set("SLURM_STEP_ID", "");  // a batch script, which runs mpirun
  EXPECT_EQ(ranks(), "6/9 2/3");
  set("SLURM_STEP_ID", "0");
  set_torchrun();  // or by hand
  EXPECT_EQ(ranks(), "5/8 1/4");
}

TEST_F(Environment, PmiWithoutALocalRankIsTheLastResort) {
  set("PMI_RANK", "1");
  set("PMI_SIZE", "2");
  EXPECT_EQ(ranks(), "1/2 0/1");
  set("SLURM_NTASKS", "16");
  EXPECT_EQ(ranks(), "1/2 0/1");
  set("SLURM_PROCID", "9");
  EXPECT_EQ(ranks(), "9/16 0/1");
}

TEST_F(Environment, OurOwnLocalRankWinsOverTheLaunchers) {
  set_open_mpi();
  set("PASSING_LOCAL_RANK", "0");
  set("PASSING_LOCAL_SIZE", "1");
  EXPECT_EQ(ranks(), "6/9 0/1");
}

TEST_F(Environment, LocalRanksAreOptional) {
  set("PMI_RANK", "1");
  set("PMI_SIZE", "2");
  EXPECT_EQ(ranks(), "1/2 0/1");
  set("MPI_LOCALRANKID", "1");
  EXPECT_EQ(ranks(), "1/2 1/2");
}

TEST_F(Environment, SlurmCountsTasksByNode) {
  set_slurm();
  set("SLURM_NTASKS_PER_NODE", "4(x2)");
  EXPECT_EQ(ranks(), "7/10 3/4");
  set("SLURM_STEP_TASKS_PER_NODE", "5(x2),4,9(x3)");
  const std::pair<const char*, const char*> nodes[] = {{"0", "7/10 3/5"}, {"1", "7/10 3/5"},
                                                       {"2", "7/10 3/4"}, {"3", "7/10 3/9"},
                                                       {"5", "7/10 3/9"}, {"6", "7/10 3/9"}};
  for (const auto& [node, expected] : nodes) {
    set("SLURM_NODEID", node);
    EXPECT_EQ(ranks(), expected) << node;
  }
  for (const char* bad : {"x", "4(x2", "4(x)", "4(y2)", "(x2)", ",", "4,,5", "-1"}) {
    set("SLURM_STEP_TASKS_PER_NODE", bad);
    EXPECT_EQ(ranks(),
              std::string("SLURM_STEP_TASKS_PER_NODE is '") + bad + "': must be a count like 4, or 4(x2),3");
  }
}

TEST_F(Environment, SlurmWithoutACountOfTasks) {
  set("SLURM_PROCID", "2");
  set("SLURM_NTASKS", "4");
  set("SLURM_LOCALID", "2");
  EXPECT_EQ(ranks(), "2/4 2/3");
}

TEST_F(Environment, HalfASourceIsAnError) {
  set("WORLD_SIZE", "4");
  EXPECT_EQ(complaint(), "WORLD_SIZE is '4' but RANK is not set: set both or neither");
  set("PASSING_RANK", "1");
  EXPECT_EQ(complaint(), "PASSING_RANK is '1' but PASSING_SIZE is not set: set both or neither");
  set("RANK", "1");  // a complete source does not excuse half of our own
  EXPECT_EQ(complaint(), "PASSING_RANK is '1' but PASSING_SIZE is not set: set both or neither");
  set("PASSING_SIZE", "4");
  EXPECT_EQ(complaint(), "");
  set("PASSING_LOCAL_SIZE", "2");
  EXPECT_EQ(complaint(), "PASSING_LOCAL_SIZE is '2' but PASSING_LOCAL_RANK is not set: set both or neither");
}

TEST_F(Environment, HalfALauncherDoesNotHideAWholeOne) {
  set("SLURM_NTASKS", "16");  // an allocation, in which mpiexec starts processes
  set_mpich();
  EXPECT_EQ(ranks(), "8/11 4/6");
}

TEST_F(Environment, AnEmptyVariableIsNotSet) {
  set_ranks("", "");
  set("PASSING_TIMEOUT", "");
  set_torchrun();
  EXPECT_EQ(ranks(), "5/8 1/4");
}

TEST_F(Environment, NumbersAreNumbers) {
  for (const char* bad : {"x", "-1", "1.5", " 1", "1 ", "4294967296", "0x1"}) {
    set_ranks(bad, "4");
    EXPECT_EQ(complaint(),
              std::string("PASSING_RANK is '") + bad + "': must be a whole number from 0 to 4294967295");
  }
  set_ranks("0", "two");
  EXPECT_EQ(complaint(), "PASSING_SIZE is 'two': must be a whole number from 0 to 4294967295");
  set_ranks("0", "2");
  for (const char* name : {"PASSING_LANES", "PASSING_SLOTS"}) {
    set(name, "many");
    EXPECT_EQ(complaint(), std::string(name) + " is 'many': must be a whole number from 0 to 4294967295");
    set(name, "2");
  }
  EXPECT_EQ(complaint(), "");
}

TEST_F(Environment, EverySettingIsRead) {
  set_ranks("1", "2");
  const auto defaults = Config::from_environment().value();
  EXPECT_EQ(defaults.job, "default");
  EXPECT_EQ(defaults.timeout, std::chrono::seconds(60));
  EXPECT_EQ(defaults.lanes, 0U);
  set("PASSING_JOB", "train");
  set("PASSING_HOST", "gpu4");
  set("PASSING_ADDRESS", "10.1.2.3");
  set("PASSING_STRATEGY", "passing");
  set("PASSING_DIRECTORY", "/shared/here");
  set("PASSING_CONTROLLER", "tor1:9001");
  set("PASSING_TOKEN", "a token for tests");
  set("PASSING_TIMEOUT", "2.5");
  set("PASSING_CREATE_TIMEOUT", "0.25");
  set("PASSING_LANES", "2");
  set("PASSING_SLOTS", "128");
  set("PASSING_SERVERS", "ps0:9100,ps1:9100");
  set("PASSING_RACK", "r7");
  set("PASSING_LOCAL_DOMAIN", "rack");
  set("PASSING_CARRIER", "memory");
  set("PASSING_SHARED_BYTES", "1000000");
  set("PASSING_LINK_RATE", "0.2");
  set("PASSING_SWITCH_RATE", "400");
  const auto config = Config::from_environment().value();
  EXPECT_EQ(config.job, "train");
  EXPECT_EQ(config.host, "gpu4");
  EXPECT_EQ(config.address, "10.1.2.3");
  EXPECT_EQ(config.strategy, "passing");
  EXPECT_EQ(config.directory, "/shared/here");
  EXPECT_EQ(config.controller, "tor1:9001");
  EXPECT_EQ(config.token, "a token for tests");
  EXPECT_EQ(config.timeout, std::chrono::milliseconds(2500));
  EXPECT_EQ(config.create_timeout, std::chrono::milliseconds(250));
  EXPECT_EQ(config.lanes, 2U);
  EXPECT_EQ(config.slots, 128U);
  EXPECT_EQ(config.servers, "ps0:9100,ps1:9100");
  EXPECT_EQ(config.rack, "r7");
  EXPECT_EQ(config.local_domain, "rack");
  EXPECT_EQ(config.carrier, "memory");
  EXPECT_EQ(config.shared_bytes, 1'000'000U);
  EXPECT_EQ(config.link_rate, 0.2);
  EXPECT_EQ(config.switch_rate, 400);
  EXPECT_TRUE(config.validate());
}

// A setting that is added is read, or this fails: what is set to nonsense is complained of.
TEST_F(Environment, NoSettingIsForgotten) {
  set_ranks("0", "1");
  const std::vector<std::string> texts = {"job",     "host",     "rack",      "local_domain",
                                          "address", "strategy", "directory", "controller",
                                          "token",   "servers",  "carrier"};
  for (const std::string name : setting_names()) {
    std::string variable = "PASSING_" + name;
    std::ranges::transform(variable, variable.begin(), [](unsigned char c) { return std::toupper(c); });
    if (std::ranges::find(texts, name) != texts.end()) continue;
    if (name == "local_rank") set("PASSING_LOCAL_SIZE", "1");
    if (name == "local_size") set("PASSING_LOCAL_RANK", "0");
    set(variable.c_str(), "nonsense");
    EXPECT_EQ(complaint().find(variable + " is 'nonsense'"), 0U) << variable << ": " << complaint();
    set(variable.c_str(), name == "rank" || name == "local_rank" ? "0" : "1");
  }
}

TEST_F(Environment, TimesAreSeconds) {
  set_ranks("0", "1");
  set("PASSING_TIMEOUT", "0.0001");  // never rounded to nothing
  EXPECT_EQ(Config::from_environment()->timeout, std::chrono::milliseconds(1));
  set("PASSING_TIMEOUT", "1e3");
  EXPECT_EQ(Config::from_environment()->timeout, std::chrono::seconds(1000));
  for (const char* bad : {"0", "-1", "soon", "nan", "inf", "1e10", "5s"}) {
    for (const char* name : {"PASSING_TIMEOUT", "PASSING_CREATE_TIMEOUT"}) {
      set(name, bad);
      EXPECT_EQ(complaint(), std::string(name) + " is '" + bad +
                                 "': must be a number of seconds above 0, at most 1000000000");
      set(name, "1");
    }
  }
}

TEST_F(Environment, TokensComeFromFiles) {
  set_ranks("0", "1");
  const test::TemporaryDirectory directory;
  const std::string path = directory.file("token");
  const auto write = [&](const std::string& text) { std::ofstream(path, std::ios::binary) << text; };
  set("PASSING_TOKEN_FILE", path);
  write("secret of the job\r\n\n");
  EXPECT_EQ(Config::from_environment()->token, "secret of the job");
  write("");
  EXPECT_EQ(Config::from_environment()->token, "");
  set("PASSING_TOKEN", "another secret");
  EXPECT_EQ(Config::from_environment()->token, "another secret");
  set("PASSING_TOKEN", "");
  std::filesystem::remove(path);
  EXPECT_EQ(complaint(),
            "PASSING_TOKEN_FILE is '" + path + "': cannot be read; name a file that this user may read");
  set("PASSING_TOKEN_FILE", "/");
  EXPECT_EQ(complaint(), "PASSING_TOKEN_FILE is '/': cannot be read; name a file that this user may read");
}

TEST_F(Environment, JobsAreNamedByTheLauncher) {
  set_ranks("0", "1");
  EXPECT_EQ(job(), "default");
  set("SLURM_JOB_ID", "4711");
  EXPECT_EQ(job(), "4711");
  set("SLURM_STEP_ID", "2");
  EXPECT_EQ(job(), "4711.2");
  set("PMIX_NAMESPACE", "prterun-node@1");
  EXPECT_EQ(job(), "prterun-node-1");
  set("TORCHELASTIC_RUN_ID", "my run/7");
  EXPECT_EQ(job(), "my-run-7.r0");
  set("TORCHELASTIC_RESTART_COUNT", "3");
  EXPECT_EQ(job(), "my-run-7.r3");
  set("PASSING_JOB", "as I say");
  EXPECT_EQ(job(), "as I say");  // validate() refuses it
}

TEST_F(Environment, TorchrunsWithoutAnIdAreToldApartByTheirMaster) {
  set_ranks("0", "1");
  set("TORCHELASTIC_RUN_ID", "none");
  EXPECT_EQ(job(), "none.r0");
  set("MASTER_ADDR", "fe80::1");
  set("MASTER_PORT", "29500");
  EXPECT_EQ(job(), "fe80--1-29500.r0");
}

TEST_F(Environment, ALaunchersNameAlwaysFits) {
  set_ranks("0", "1");
  set("TORCHELASTIC_RUN_ID", std::string(500, '\xff'));
  set("TORCHELASTIC_RESTART_COUNT", "12");
  EXPECT_EQ(job(), std::string(96, '-') + ".r12");
  EXPECT_TRUE(Config::from_environment()->validate());
  set("TORCHELASTIC_RESTART_COUNT", std::string(500, '1'));
  EXPECT_EQ(job().size(), 100U);
}

}  // namespace
}  // namespace passing
