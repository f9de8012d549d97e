// docs/train.md: models and their buckets, the figures of a table.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "train/model.h"
#include "train/row.h"

namespace passing::train {
namespace {

constexpr double kMega = 1024 * 1024;

Model model_of(std::vector<Layer> layers) {
  return {.name = "some",
          .gpu = "V100",
          .batch = 8,
          .samples_per_second = 1,
          .source = "",
          .layers = std::move(layers)};
}

TEST(Schedule, BucketsAreThoseOfPyTorch) {
  // Backward: 2 MB, 10 MB, 20 MB, 1 MB. The first bucket is full at 1 MB, the next at 25.
  const auto elements = [](double megabytes) { return static_cast<std::size_t>(megabytes * kMega / 4); };
  const Model model = model_of({{"a", elements(1), 1, 2},
                                {"b", elements(20), 1, 4},
                                {"c", elements(10), 1, 8},
                                {"d", elements(2), 1, 16}});
  const Schedule made = schedule(model, 2);
  EXPECT_EQ(made.forward_seconds, 4);
  EXPECT_EQ(made.backward_seconds, 30);
  ASSERT_EQ(made.buckets.size(), 3U);
  EXPECT_EQ(made.buckets[0].elements, elements(1));
  EXPECT_EQ(made.buckets[0].ready_seconds, 16);
  EXPECT_EQ(made.buckets[1].elements, elements(15));
  EXPECT_EQ(made.buckets[1].ready_seconds, 28);
  EXPECT_EQ(made.buckets[2].elements, elements(0.5));
  EXPECT_EQ(made.buckets[2].ready_seconds, 30);
  EXPECT_EQ(made.elements(), elements(16.5));
}

TEST(Schedule, NothingIsScaledAway) {
  const Schedule made = schedule(model_of({{"a", 10, 1, 2}}), 1000);
  ASSERT_EQ(made.buckets.size(), 1U);
  EXPECT_EQ(made.buckets[0].elements, 1U);
}

TEST(ModelFile, ThoseThatComeWithUsAreAsPublished) {
  const std::string directory = std::string(PASSING_SOURCE_DIR) + "/share/models/";
  for (const auto& [name, parameters] : {std::pair{"alexnet", 61.1},
                                         {"vgg16", 138.4},
                                         {"resnet50", 25.6},
                                         {"bert_base", 109.5},
                                         {"gpt2_small", 124.4},
                                         {"vgg19", 143.7},
                                         {"resnet101", 44.55},
                                         {"inception_v3", 23.8},
                                         {"bert_large", 335.1},
                                         {"gpt2_xl", 1557.6}}) {
    const auto model = read_model(directory + name + "-v100.json");
    ASSERT_TRUE(model) << model.error().message;
    EXPECT_EQ(model->name, name);
    EXPECT_NEAR(1e-6 * static_cast<double>(model->parameters()), parameters, 0.05) << name;
    const double step = model->forward_seconds() + model->backward_seconds();
    EXPECT_NEAR(model->batch / step, model->samples_per_second, 0.003 * model->samples_per_second) << name;
    EXPECT_NEAR(model->backward_seconds() / model->forward_seconds(), 2, 0.001) << name;
  }
}

TEST(ModelFile, WhatIsWrongIsSaid) {
  const std::string path = testing::TempDir() + "/passing-" + std::to_string(getpid()) + "-model.json";
  const nlohmann::json good = {
      {"format", "passing-model"},
      {"version", 1},
      {"model", "m"},
      {"gpu", "g"},
      {"source", "s"},
      {"batch", 1},
      {"samples_per_second", 2.5},
      {"layers", {{{"name", "a"}, {"parameters", 3}, {"forward_seconds", 0.1}, {"backward_seconds", 0.2}}}}};
  const auto error_of = [&](const std::string& text) {
    std::ofstream(path) << text;
    const auto model = read_model(path);
    return model ? std::string() : model.error().message;
  };
  EXPECT_EQ(error_of(good.dump()), "");
  EXPECT_NE(error_of("{").find("is not JSON"), std::string::npos);
  EXPECT_NE(error_of("{}").find("\"format\": \"passing-model\""), std::string::npos);
  for (const auto& [patch, sentence] :
       {std::pair{R"([{"op":"replace","path":"/batch","value":0}])", "\"batch\" 0: must be a number above 0"},
        {R"([{"op":"remove","path":"/gpu"}])", "has no text \"gpu\""},
        {R"([{"op":"replace","path":"/layers","value":[]}])", "has no list of \"layers\""},
        {R"([{"op":"replace","path":"/layers/0/parameters","value":-1}])", "layers[0] has parameters -1"},
        {R"([{"op":"remove","path":"/layers/0/forward_seconds"}])", "layers[0] has forward_seconds missing"},
        {R"([{"op":"replace","path":"/layers/0/parameters","value":0}])", "no parameters in any layer"}}) {
    EXPECT_NE(error_of(good.patch(nlohmann::json::parse(patch)).dump()).find(sentence), std::string::npos)
        << sentence;
  }
  std::filesystem::remove(path);
  const auto none = read_model(path);
  EXPECT_NE(none.error().message.find("cannot be read (No such file"), std::string::npos);
}

Table table_of() {
  const auto round = [](double step, double compute, std::vector<double> losses) {
    return Round{.step_seconds = step,
                 .compute_seconds = compute,
                 .busiest = 100,
                 .busiest_link = "host0 up",
                 .losses = std::move(losses),
                 .ends = {step}};
  };
  return {.about = {.mode = "real",
                    .model = "m",
                    .gpu = "",
                    .shape = {.hosts = 2, .ranks = 4},
                    .batch = 4,
                    .steps = 1},
          .rows = {{.strategy = "ps",
                    .rounds = {round(4, 0.9, {2, 1}), round(8, 1, {2, 1}), round(6, 1.1, {2, 1})}},
                   {.strategy = "passing",
                    .rounds = {round(2, 1, {2, 1.00005}), round(2, 1, {2, 1}), round(1, 1, {2, 1})}}}};
}

TEST(Table, FiguresAreMedians) {
  const Table table = table_of();
  EXPECT_EQ(table.compute_seconds(), 1);
  EXPECT_EQ(table.rows[0].step_seconds(), 6);
  EXPECT_EQ(table.exposed_seconds(table.rows[0]), 5);
  EXPECT_EQ(table.samples_per_second(table.rows[1]), 16);
  EXPECT_EQ(table.speedup(table.rows[1], "ps"), 4);  // of 2, 4 and 6: round by round
  EXPECT_EQ(table.speedup(table.rows[1], "gloo"), 0);
  const nlohmann::json json = to_json(table, table.rows[1]);
  EXPECT_EQ(json["speedup_over_ps"], 4);
  EXPECT_EQ(json["final_loss"], 1.00005);  // of the round that is nearest to the median
  EXPECT_EQ(json["speedup_over"], nlohmann::json({{"ps", 4}}));
  EXPECT_NE(to_text(table).find("4.00 x"), std::string::npos);
}

TEST(Table, CurvesAreCompared) {
  Table table = table_of();
  EXPECT_EQ(table.unlike(table.rows[1]), "");
  table.rows[1].rounds[1].losses[1] = 1.0002;
  EXPECT_EQ(table.unlike(table.rows[1]),
            "passing: the loss of step 2 is 1.0002, with ps it is 1: that is more than 0.0001 apart");
  // gloo is the yardstick if it is there, wherever it stands.
  table.rows.push_back({.strategy = "gloo", .rounds = {table.rows[1].rounds[1]}});
  EXPECT_EQ(table.unlike(table.rows[2]), "");
  EXPECT_NE(table.unlike(table.rows[0]), "");
}

}  // namespace
}  // namespace passing::train
