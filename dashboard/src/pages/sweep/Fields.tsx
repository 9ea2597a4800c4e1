import { Autocomplete, Button, FileButton, MultiSelect, SegmentedControl, Select, SimpleGrid, Stack, Switch, Textarea, Title } from "@mantine/core";
import { IconUpload } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "../../i18n";

import { OBJECTIVES } from "../../api/objectives";
import { modelsQuery } from "../../api/queries";
import { CardHead } from "../../components/CardHead";
import { HardwaresField, NumberField, TextField } from "../../components/JobFields";
import { otherCode } from "../../units/currency";
import { NUMBERS, STACKS, type Field, type Form } from "./request";

interface Props {
  form: Form;
  set: (changes: Partial<Record<Field, string>>) => void;
  errorOf: (field: Field) => string | undefined;
  jobText: string;
  setJobText: (text: string) => void;
  isJob: boolean;
}

/** What is swept, for how many tokens, and what must hold. */
export function Fields({ form, set, errorOf, jobText, setJobText, isJob }: Props) {
  const { t } = useTranslation("sweep");
  const models = useQuery(modelsQuery()).data?.items ?? [];
  const usual = (field: Field) => ({ label: t(`field.${field}`), value: form[field], onChange: (value: string) => set({ [field]: value }), error: errorOf(field) });
  return (
    <Stack gap="sm">
      <Title order={2}>{t("job")}</Title>
      <SegmentedControl
        value={form.source}
        onChange={(source) => set({ source })}
        data={[
          { value: "preset", label: t("fromPreset") },
          { value: "job", label: t("fromJob") },
        ]}
        aria-label={t("job")}
        style={{ alignSelf: "flex-start" }}
      />
      {form.source === "job" ? (
        <>
          <Textarea
            label={t("field.job")}
            description={t("jobHelp")}
            value={jobText}
            onChange={(event) => setJobText(event.currentTarget.value)}
            error={jobText.trim() && !isJob ? t("notJson") : errorOf("model")}
            autosize
            minRows={3}
            maxRows={10}
            spellCheck={false}
            styles={{ input: { fontFamily: "var(--mantine-font-family-monospace)", fontSize: "var(--mantine-font-size-sm)" } }}
          />
          <FileButton onChange={(file) => void file?.text().then(setJobText)} accept=".json">
            {(props) => (
              <Button {...props} variant="default" leftSection={<IconUpload size={15} />} style={{ alignSelf: "flex-start" }}>
                {t("upload")}
              </Button>
            )}
          </FileButton>
        </>
      ) : (
        <Autocomplete {...usual("model")} data={models.map(({ name }) => name)} placeholder={t("modelPlaceholder")} required />
      )}
      <CardHead title={t("sizes")} help={t("sizesHelp")} mb={0} />
      <SimpleGrid cols={{ base: 1, xs: 2, md: 3, xl: 6 }}>
        <TextField {...usual("devices")} placeholder="64..4096" description={t("devicesHelp")} />
        <HardwaresField {...usual("hardware")} description={t("listHelp")} placeholder={t("hardwarePlaceholder")} />
        <MultiSelect
          label={t("field.software")}
          description={t("listHelp")}
          error={errorOf("software")}
          data={[...STACKS]}
          value={form.software.split(",").filter(Boolean)}
          onChange={(names) => set({ software: names.join(",") })}
          clearable
        />
        <TextField {...usual("batch")} placeholder="1024,2048" description={t("listHelp")} />
        <TextField {...usual("sequence")} placeholder="4096,8192" description={t("listHelp")} />
        <Switch
          label={t("field.scale")}
          description={t("scaleHelp")}
          checked={form.scale === "yes"}
          onChange={(event) => set({ scale: event.currentTarget.checked ? "yes" : "" })}
          error={errorOf("scale")}
          mt="xs"
        />
      </SimpleGrid>
      <Title order={2}>{t("wanted")}</Title>
      <SimpleGrid cols={{ base: 1, xs: 2, md: 3, xl: 6 }}>
        <Select
          label={t("field.objective")}
          data={OBJECTIVES.map((value) => ({ value, label: t(`common:objective.${value}`) }))}
          value={form.objective}
          onChange={(value) => set({ objective: value ?? "step_time" })}
          error={errorOf("objective")}
          allowDeselect={false}
        />
        <NumberField {...usual("tokens")} written={NUMBERS.tokens} placeholder={t("presetTokens")} />
        <NumberField {...usual("deadline")} written={NUMBERS.deadline} placeholder={t("none")} />
        <TextField {...usual("budget")} placeholder={t("none")} description={t("common:currency.typed", { code: otherCode() })} />
        <TextField {...usual("price")} placeholder={t("profilePrice")} description={t("common:currency.typed", { code: otherCode() })} />
        <NumberField {...usual("limit")} written={NUMBERS.limit} placeholder="60" />
      </SimpleGrid>
    </Stack>
  );
}
