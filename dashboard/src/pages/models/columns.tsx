import { Anchor, Stack, Text } from "@mantine/core";
import { useMemo } from "react";
import { useTranslation } from "../../i18n";
import { Link } from "react-router";

import type { Schemas } from "../../api/client";
import { BasisBadge } from "../../components/BasisBadge";
import type { Column } from "../../components/DataTable";
import { compact, count } from "../../units/format";

export type Model = Schemas["ModelSummary"];

export function useModelColumns(): Column<Model>[] {
  const { t, i18n } = useTranslation("models");
  return useMemo(
    (): Column<Model>[] => [
      {
        key: "model",
        header: t("column.model"),
        fixed: true,
        value: (model) => model.title,
        cell: (model) => (
          <Stack gap={0} miw={150}>
            <Anchor component={Link} to={`/models/${model.name}`} fw={550} c="inherit">
              {model.title}
            </Anchor>
            <Text size="xs" c="dimmed" ff="monospace">
              {model.name}
            </Text>
          </Stack>
        ),
      },
      numeric("parameters", t("column.parameters"), (model) => model.num_parameters, compact),
      numeric("active", t("column.active"), (model) => model.num_active_parameters, compact, t("help.active")),
      numeric("layers", t("column.layers"), (model) => model.num_layers),
      numeric("hidden", t("column.hidden"), (model) => model.hidden_size),
      numeric("heads", t("column.heads"), (model) => model.num_attention_heads),
      numeric("groups", t("column.groups"), (model) => model.num_query_groups, count, t("help.groups")),
      {
        ...numeric("experts", t("column.experts"), (model) => model.num_experts, count, t("help.experts")),
        cell: (model) => (model.num_experts ? `${count(model.num_experts)} / ${count(model.top_k)}` : t("dense")),
      },
      { ...numeric("vocab", t("column.vocab"), (model) => model.vocab_size), shown: false },
      numeric("seq", t("column.seq"), (model) => model.seq_length),
      numeric("batch", t("column.batch"), (model) => model.global_batch_size),
      { ...numeric("tokens", t("column.tokens"), (model) => model.train_tokens, compact), shown: false },
      { key: "precision", header: t("column.precision"), shown: false, value: (model) => model.precision, cell: (model) => model.precision },
      { key: "basis", header: t("column.basis"), help: t("help.basis"), value: (model) => model.basis, cell: (model) => <BasisBadge basis={model.basis} /> },
    ],
    [t, i18n.language],
  );
}

function numeric(
  key: string,
  header: string,
  value: (model: Model) => number | null,
  format: (value: number | null) => string = count,
  help?: string,
): Column<Model> {
  return { key, header, numeric: true, value, cell: (model) => format(value(model)), ...(help && { help }) };
}
