import { Group, SegmentedControl, Select, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { bracketed, useTranslation } from "../../i18n";

import type { Schemas } from "../../api/client";
import { modelsQuery } from "../../api/queries";
import { ConfigImport } from "../../components/ConfigImport";
import { byNameOrId } from "../../components/byNameOrId";
import { FactList } from "../../components/FactList";
import { compact, count } from "../../units/format";
import type { SectionProps } from "./Section";
import { Section } from "./Section";

export function ModelSection(props: SectionProps) {
  const { form, set, errors } = props;
  const { t } = useTranslation("newStudy");
  return (
    <Section title={t("section.model")}>
      <SegmentedControl
        value={form.source}
        onChange={(source) => set("source", source)}
        data={[
          { value: "preset", label: t("model.preset") },
          { value: "config", label: t("model.config") },
        ]}
        aria-label={t("section.model")}
      />
      {form.source === "config" ? <CustomModelPart {...props} /> : <Preset form={form} set={set} errors={errors} />}
    </Section>
  );
}

function Preset({ form, set, errors }: Pick<SectionProps, "form" | "set" | "errors">) {
  const { t } = useTranslation("newStudy");
  const { data } = useQuery(modelsQuery());
  const preset = data?.items.find((item) => item.name === form.model);
  return (
    <>
      <Select
        label={t("model.label")}
        placeholder={t("model.placeholder")}
        data={data?.items.map(({ name, title }) => ({ value: name, label: title })) ?? []}
        value={form.model || null}
        onChange={(name) => set("model", name ?? "")}
        error={errors.model}
        searchable
        filter={byNameOrId}
        nothingFoundMessage={t("noMatch")}
        required
        renderOption={({ option }) => <PresetOption preset={data?.items.find(({ name }) => name === option.value)} />}
      />
      {preset && (
        <FactList
          facts={[
            [t("model.parameters"), sizes(preset.num_parameters, preset.num_experts ? preset.num_active_parameters : null, t("model.active"))],
            [t("model.layers"), String(preset.num_layers)],
            [t("model.hidden"), count(preset.hidden_size)],
            ...(preset.num_experts ? [[t("model.experts"), t("model.topK", { experts: preset.num_experts, k: preset.top_k })] as const] : []),
            [t("model.usual"), t("model.usualBatch", { batch: count(preset.global_batch_size), seq: count(preset.seq_length) })],
          ]}
        />
      )}
    </>
  );
}

/** Of a dense model all are active: what differs is the embedding. */
function sizes(total: number, active: number | null, word: string): string {
  return active !== null ? `${compact(total)}${bracketed(`${compact(active)} ${word}`)}` : compact(total);
}

function PresetOption({ preset }: { preset: Schemas["ModelSummary"] | undefined }) {
  if (!preset) return null;
  return (
    <Group justify="space-between" wrap="nowrap" flex={1}>
      <Text size="sm">{preset.title}</Text>
      <Text size="xs" c="dimmed" className="number">
        {compact(preset.num_parameters)}
      </Text>
    </Group>
  );
}

function CustomModelPart({ custom, setCustom, errors }: SectionProps) {
  const { t } = useTranslation("newStudy");
  return (
    <>
      {custom && (
        <FactList
          facts={[
            [t("model.name"), String(custom.model.name)],
            ...(custom.num_parameters
              ? [[t("model.parameters"), sizes(custom.num_parameters.total, custom.model.moe ? custom.num_parameters.active : null, t("model.active"))] as const]
              : []),
            [t("model.layers"), String(custom.model.num_layers)],
            [t("model.hidden"), count(Number(custom.model.hidden_size))],
          ]}
        />
      )}
      <ConfigImport onModel={setCustom} error={errors.model} rows={custom ? 2 : 5} />
    </>
  );
}
