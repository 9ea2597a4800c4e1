import { Accordion, Group, SimpleGrid, Stack, Switch, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { bracketed, useTranslation } from "../../i18n";

import { OBJECTIVES } from "../../api/objectives";
import { calibrationsQuery, hardwareListQuery, modelsQuery } from "../../api/queries";
import { Explained } from "../../components/Explained";
import { ago, count } from "../../units/format";
import { ADAPTED, AUTOMATIC, isTuning, LIMITS } from "./form";
import { Choice, Text as TextField, Numeric } from "./Input";
import { Section, type SectionProps } from "./Section";

const PRECISIONS = ["bf16", "fp16", "fp8", "mxfp8", "hif8", "nvfp4", "fp32"];
const TASKS = ["pretrain", "sft", "lora", "qlora", "dpo"];
const STACKS = ["mindspeed-llm", "mindspeed-llm-fsdp2", "mindformers", "megatron-lm", "nemo", "megatron-deepspeed", "fsdp", "maxtext"];
const TARGETS: Record<string, string[]> = { ascend: ["mindspeed-llm", "mindspeed-llm-fsdp2", "mindformers"], nvidia: ["megatron-lm", "torchtitan"], amd: ["megatron-lm", "torchtitan"] };
const FREE: readonly string[] = [AUTOMATIC, "any"];
const SAMPLERS = ["exhaustive", "tpe", "nsga2", "random"];
const EXAMPLES: Record<(typeof LIMITS)[number], string> = {
  tp: "1,2,4,8", pp: "..16", vpp: "1..4", cp: "1", ep: "8,16,32", micro_batch_size: "1,2", recompute: "none,full", zero_stage: "1",
};

const named = (names: readonly string[]) => names.map((value) => ({ value, label: value }));

export function TrainingSection(props: SectionProps) {
  const { form } = props;
  const { t } = useTranslation("newStudy");
  const { data: models } = useQuery(modelsQuery());
  const { data: hardware } = useQuery(hardwareListQuery());
  const preset = form.source === "preset" && !isTuning(form) ? models?.items.find(({ name }) => name === form.model) : undefined;
  const rates = hardware?.items.find(({ name }) => name === form.hardware)?.matmul_flops_per_s;
  return (
    <Section title={t("section.training")}>
      {preset && (
        <Text size="sm" c="dimmed">
          {t("training.defaults")}
        </Text>
      )}
      <SimpleGrid cols={{ base: 1, xs: 2 }}>
        <Numeric {...props} field="seq_length" label={t("training.seq")} placeholder={preset ? count(preset.seq_length) : ""} required={!preset} />
        <Numeric
          {...props}
          field="global_batch_size"
          label={t("training.batch")}
          placeholder={preset ? count(preset.global_batch_size) : ""}
          required={!preset}
        />
        <Choice
          {...props}
          field="precision"
          label={t("training.precision")}
          data={named(PRECISIONS.filter((name) => !rates || name in rates || form.precision === name))}
          placeholder={preset?.precision ?? "bf16"}
          clearable
        />
        <Numeric {...props} field="train_tokens" label={t("training.tokens")} placeholder={preset?.train_tokens ? count(preset.train_tokens) : ""} />
        <Choice
          {...props}
          field="task"
          label={t("training.task")}
          data={TASKS.map((value) => ({ value, label: t(`training.tasks.${value}`) }))}
          placeholder={t("training.tasks.pretrain")}
          clearable
        />
        {ADAPTED[form.task] && (
          <Numeric {...props} field="adapter_rank" label={t("training.rank")} placeholder={ADAPTED[form.task] === "possible" ? t("training.allWeights") : ""} required={ADAPTED[form.task] === "needed"} />
        )}
      </SimpleGrid>
    </Section>
  );
}

export function SoftwareSection(props: SectionProps) {
  const { form } = props;
  const { t } = useTranslation("newStudy");
  const { data: hardware } = useQuery(hardwareListQuery());
  const family = hardware?.items.find(({ name }) => name === form.hardware)?.family;
  const targets = family ? (TARGETS[family] ?? []) : [...new Set(Object.values(TARGETS).flat())];
  const { data: calibrations } = useQuery(calibrationsQuery());
  const fitted = calibrations?.filter(({ id, hardware: of }) => of === form.hardware || id === form.calibration) ?? [];
  const own = !FREE.includes(form.target) && !targets.includes(form.target) ? [form.target] : [];
  return (
    <Section title={t("section.software")}>
      <SimpleGrid cols={{ base: 1, xs: 2 }}>
        <Choice
          {...props}
          field="target"
          label={t("software.target")}
          description={t("software.targetHelp")}
          data={[{ value: AUTOMATIC, label: t("software.automatic") }, ...named([...targets, ...own]), { value: "any", label: t("software.any") }]}
        />
        <Choice
          {...props}
          field="stack"
          label={t("software.stack")}
          description={t("software.stackHelp")}
          data={named(STACKS)}
          placeholder={t("software.usual")}
          clearable
        />
      </SimpleGrid>
      {(fitted.length > 0 || form.calibration) && (
        <Choice
          {...props}
          // A calibration is of one stack.
          set={(name, value) => (props.set(name, value), props.set("stack", fitted.find(({ id }) => id === value)?.stack ?? form.stack))}
          field="calibration"
          label={t("software.calibration")}
          description={t("software.calibrationHelp")}
          data={[
            ...fitted.map(({ id, stack, num_runs: runs, created_at_s: at }) => ({ value: id, label: t("software.fitted", { id, stack, count: runs, age: ago(at) }) })),
            ...(form.calibration && !fitted.some(({ id }) => id === form.calibration) ? [{ value: form.calibration, label: form.calibration }] : []),
          ]}
          placeholder={t("software.shipped")}
          clearable
        />
      )}
    </Section>
  );
}

export function SearchSection(props: SectionProps) {
  const { form, errors } = props;
  const { t } = useTranslation("newStudy");
  const isSampled = form.sampler !== "exhaustive";
  const numLimited = LIMITS.filter((name) => form[name]).length;
  const hasError = LIMITS.some((name) => errors[name]);
  return (
    <Section title={t("section.search")}>
      <SimpleGrid cols={{ base: 1, xs: 2 }}>
        <Choice
          {...props}
          field="objective"
          label={t("search.objective")}
          data={OBJECTIVES.map((value) => ({ value, label: t(`common:objective.${value}`) }))}
        />
        <Choice
          {...props}
          field="sampler"
          label={t("search.sampler")}
          data={SAMPLERS.map((value) => ({ value, label: t(`search.samplers.${value}`) }))}
        />
        {isSampled && (
          <>
            <Numeric {...props} field="max_trials" label={t("search.trials")} placeholder="1,000" />
            <Numeric {...props} field="seed" label={t("search.seed")} placeholder="0" />
          </>
        )}
        {!isSampled && (
          <>
            <Numeric {...props} field="refine" label={t("search.refine")} description={t("search.refineHelp")} placeholder={t("search.noLimit")} />
            {form.refine && (
              <>
                <Numeric {...props} field="seed" label={t("search.seed")} placeholder="0" />
                <Switch
                  name="refine_front"
                  label={t("search.refineFront")}
                  checked={form.refine_front === "true"}
                  onChange={(event) => props.set("refine_front", event.currentTarget.checked ? "true" : "")}
                  error={errors.refine_front}
                  mt={{ base: 0, xs: 30 }}
                />
              </>
            )}
          </>
        )}
        <Numeric {...props} field="top" label={t("search.top")} placeholder="20" />
        <Numeric {...props} field="time_limit" label={t("search.timeLimit")} unit="s" placeholder={t("search.noLimit")} />
      </SimpleGrid>
      <Accordion variant="contained" defaultValue={numLimited || hasError ? "limits" : null}>
        <Accordion.Item value="limits">
          <Accordion.Control>
            <Group gap="xs">
              <span>{t("search.limits")}</span>
              {numLimited > 0 && (
                <Text span size="xs" c="dimmed">
                  {t("search.limited", { count: numLimited })}
                </Text>
              )}
            </Group>
          </Accordion.Control>
          <Accordion.Panel>
            <Stack gap="xs">
              <Text size="sm" c="dimmed" component="div">
                <Explained text={t("search.limitsForm")}>{t("search.limitsHelp")}</Explained>
              </Text>
              <SimpleGrid cols={{ base: 1, xs: 2 }}>
                {LIMITS.map((name) => (
                  <TextField key={name} {...props} field={name} label={`${t(`common:strategy.${name}`)}${bracketed(name)}`} placeholder={EXAMPLES[name]} />
                ))}
              </SimpleGrid>
            </Stack>
          </Accordion.Panel>
        </Accordion.Item>
      </Accordion>
    </Section>
  );
}
