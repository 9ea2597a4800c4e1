import { Card, SimpleGrid, Stack, Text, Title } from "@mantine/core";
import { useTranslation } from "../../i18n";

import type { Schemas } from "../../api/client";
import { StatTile } from "../../components/StatTile";
import { seriesColor } from "../../theme/palette";
import { usePalette } from "../../theme/usePalette";
import { compact, count, percent } from "../../units/format";
import classes from "./models.module.css";
import { groupsOf, sharesOf, type ModelPart } from "./shapeOf";

interface Props {
  model: ModelPart;
  parameters: Schemas["Parameters"];
  published?: Schemas["Published"];
  /** Of the headings of its blocks. */
  order?: 2 | 3;
}

/** A model's sizes and every dimension, block by block. */
export function Shape({ model, parameters, published, order = 2 }: Props) {
  const { t } = useTranslation("models");
  const moe = model.moe as ModelPart | null | undefined;
  return (
    <Stack gap="md">
      <SimpleGrid cols={{ base: 2, md: 4 }} spacing="sm">
        <StatTile label={t("tile.total")} value={compact(parameters.total, 4)} note={<Against ours={parameters.total} theirs={published?.parameters} />} />
        <StatTile
          label={t("tile.active")}
          value={compact(parameters.active, 4)}
          help={t("help.active")}
          note={<Against ours={parameters.active + (published?.active_includes_embedding ? parameters.embedding : 0)} theirs={published?.active_parameters} />}
        />
        <StatTile label={t("tile.layers")} value={count(Number(model.num_layers))} note={t("tile.hiddenOf", { hidden: count(Number(model.hidden_size)) })} />
        <StatTile
          label={t(moe ? "tile.experts" : "tile.mlp")}
          value={moe ? `${count(Number(moe.num_experts))} / ${count(Number(moe.top_k))}` : count(Number(model.ffn_hidden_size))}
          {...(moe && { note: t("tile.expertsNote") })}
        />
      </SimpleGrid>
      <Parameters parameters={parameters} />
      <div className={classes.groups}>
        {groupsOf(model).map(({ key, facts }) => (
          <Card component="section" key={key} aria-label={t(`group.${key}`)} className={classes.group}>
            <Title order={order} fz="h3">{t(`group.${key}`)}</Title>
            <dl>
              {facts.map(([name, value]) => (
                <div key={name}>
                  <dt title={name}>{t(`dim.${name}`, { defaultValue: name })}</dt>
                  <dd className="number">{typeof value === "number" ? count(value) : value === null ? "–" : typeof value === "boolean" ? t(value ? "yes" : "no") : value}</dd>
                </div>
              ))}
            </dl>
          </Card>
        ))}
      </div>
    </Stack>
  );
}

/** How far a count is from the one that its source states. */
function Against({ ours, theirs }: { ours: number; theirs: number | null | undefined }) {
  const { t } = useTranslation("models");
  if (!theirs) return null;
  return t("tile.published", { value: compact(theirs, 4), off: percent(Math.abs(ours / theirs - 1), 2) });
}

function Parameters({ parameters }: { parameters: Schemas["Parameters"] }) {
  const { t } = useTranslation("models");
  const palette = usePalette();
  const shares = sharesOf(parameters);
  const sum = shares.reduce((total, share) => total + share.parameters, 0);
  return (
    <figure className={classes.parts} aria-label={t("share.title")}>
      <div className={classes.bar} aria-hidden>
        {shares.map(({ key, parameters: size }, index) => (
          <span key={key} style={{ flexGrow: size / sum, background: seriesColor(palette, index) }} />
        ))}
      </div>
      <figcaption>
        {shares.map(({ key, parameters: size }, index) => (
          <Text key={key} size="sm" component="span" className={classes.share}>
            <span className={classes.mark} style={{ background: seriesColor(palette, index) }} />
            {t(`share.${key}`)}
            <strong className="number">{compact(size)}</strong>
            <span className="number">{percent(size / sum)}</span>
          </Text>
        ))}
      </figcaption>
    </figure>
  );
}
