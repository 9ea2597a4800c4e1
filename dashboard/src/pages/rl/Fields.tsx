import { Autocomplete, SegmentedControl, Select, SimpleGrid, Stack, Switch, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "../../i18n";

import { modelsQuery } from "../../api/queries";
import { HardwareField, NumberField } from "../../components/JobFields";
import { ALGORITHMS, ENGINES, PLACEMENTS, PRECISIONS, writtenOf, type Field, type Form } from "./request";

interface Props {
  form: Form;
  set: (changes: Partial<Record<Field, string>>) => void;
  errorOf: (field: Field) => string | undefined;
}

const COLS = { base: 2, md: 3, xl: 6 };

/** The algorithm, its answers, and where its tasks run. */
export function Fields({ form, set, errorOf }: Props) {
  const { t } = useTranslation("rl");
  const models = useQuery(modelsQuery()).data?.items ?? [];
  const usual = (field: Field) => ({ label: t(`field.${field}`), value: form[field], onChange: (value: string) => set({ [field]: value }), error: errorOf(field) });
  const whole = (field: Field, placeholder = "", rest: { required?: boolean; unit?: string } = {}) => <NumberField {...usual(field)} written={writtenOf(field)} placeholder={placeholder} {...rest} />;
  const choice = (field: Field, values: readonly string[], empty: string, named: (value: string) => string = (value) => value) => (
    <Select
      label={t(`field.${field}`)}
      error={errorOf(field)}
      data={values.map((value) => ({ value, label: named(value) }))}
      value={form[field] || null}
      onChange={(value) => set({ [field]: value ?? "" })}
      placeholder={empty}
      clearable
    />
  );
  const flag = (field: Field) => (
    <Switch label={t(`field.${field}`)} checked={form[field] === "yes"} onChange={(event) => set({ [field]: event.currentTarget.checked ? "yes" : "" })} mt={{ base: 0, xs: 28 }} />
  );
  const isSearch = form.ask === "search";
  const [usualText, searched] = [t("usual"), t(isSearch ? "searched" : "fastest")];
  return (
    <Stack gap="sm">
      <Title order={2}>{t("job")}</Title>
      <SimpleGrid cols={COLS}>
        <Autocomplete {...usual("model")} data={models.map(({ name }) => name)} placeholder={t("modelPlaceholder")} required />
        <HardwareField {...usual("hardware")} style={{ gridColumn: "span 2" }} placeholder={t("hardwarePlaceholder")} required />
        {whole("devices", "64", { required: true })}
        <Select
          label={t("field.algorithm")}
          data={ALGORITHMS.map((value) => ({ value, label: value.toUpperCase() }))}
          value={form.algorithm}
          onChange={(value) => set({ algorithm: value ?? "grpo" })}
          error={errorOf("algorithm")}
          allowDeselect={false}
        />
        {whole("prompts", "512", { required: true })}
        {whole("samples", "16", { required: true })}
      </SimpleGrid>
      <Title order={2}>{t("answers")}</Title>
      <SimpleGrid cols={COLS}>
        {whole("mean", "1,640", { required: true })}
        {whole("cap", "28,672", { required: true })}
        {whole("prompt_tokens", "150")}
        {whole("sigma", "0.7")}
        {whole("quantile_level", "0.9")}
        {whole("quantile_length", "4,000")}
        {whole("group_share", "0.7")}
        {whole("updates", "1")}
        {whole("kept", "1")}
      </SimpleGrid>
      <Title order={2}>{t("where")}</Title>
      <SegmentedControl
        value={form.ask}
        onChange={(ask) => set({ ask })}
        data={[
          { value: "search", label: t("ask.search") },
          { value: "estimate", label: t("ask.estimate") },
        ]}
        aria-label={t("where")}
        style={{ alignSelf: "flex-start" }}
      />
      <Text size="sm" c="dimmed">
        {t(isSearch ? "searchHelp" : "estimateHelp")}
      </Text>
      <SimpleGrid cols={COLS}>
        {choice("placement", PLACEMENTS, isSearch ? t("allPlacements") : t("placement.fully-colocated"), (value) => t(`placement.${value}`))}
        {isSearch ? (
          whole("max_staleness", "4")
        ) : (
          <>
            {whole("rollout_devices", usualText)}
            {whole("train_devices", usualText)}
            {whole("staleness", "0")}
            {flag("partial")}
          </>
        )}
        {flag("queue")}
        {form.queue && whole("queue_rate", "1", { unit: "GB/s" })}
        {choice("engine", ENGINES, "sharded")}
      </SimpleGrid>
      <Text size="sm" c="dimmed">
        {t("layoutHelp")}
      </Text>
      <SimpleGrid cols={COLS}>
        {whole("tp", searched)}
        {whole("pp", searched)}
        {whole("cp", searched)}
        {whole("ep", searched)}
        {whole("rollout_tp", searched)}
        {whole("rollout_ep", searched)}
        {choice("precision", PRECISIONS, "bf16")}
      </SimpleGrid>
    </Stack>
  );
}
