import { Alert, Button, Card, List, SimpleGrid, Stack, Table, Text, Title } from "@mantine/core";
import { IconAlertTriangle, IconDownload } from "@tabler/icons-react";
import { useTranslation } from "../../i18n";

import type { Schemas } from "../../api/client";
import { CardHead } from "../../components/CardHead";
import { CopyButton } from "../../components/CopyButton";
import { fitLimit } from "../../components/fitLimit";
import { saveFile } from "../../components/saveFile";
import { StatTile } from "../../components/StatTile";
import { strategyText } from "../../components/strategy";
import { Warnings } from "../../components/Warnings";
import { bytes, factor, percent, seconds } from "../../units/format";
import { stepIntervalText } from "../../units/interval";
import { diffLines, partnersOf, piecesOf } from "./request";
import classes from "./scripts.module.css";

type Tuned = Schemas["TuneDocument"];

/** Yours, the best, and what to change. */
export function Answer({ name, answer }: { name: string; answer: Tuned }) {
  const { t } = useTranslation("scripts");
  return (
    <Stack role="status">
      <Tiles answer={answer} />
      <Warnings warnings={answer.warnings} />
      {answer.warnings.some((warning) => warning.includes("--lengths")) && <Text size="sm">{t("lengths", { command: `meshplan tune ${name} --lengths MEAN:MAX` })}</Text>}
      {answer.violations.length > 0 && (
        <Alert color="orange" variant="light" icon={<IconAlertTriangle size={18} />} title={t("cannotRun", { target: answer.target })} c="inherit">
          <Sentences sentences={answer.violations} />
        </Alert>
      )}
      <NotUnderstood entries={answer.not_understood} />
      <Plans answer={answer} />
      <Change name={name} answer={answer} />
    </Stack>
  );
}

function Tiles({ answer: { estimate, best, speedup, speedup_error_fraction: error } }: { answer: Tuned }) {
  const { t } = useTranslation("scripts");
  const memory = (of: Schemas["EstimateNumbers"]) =>
    t(of.fits == null ? "memoryAlone" : !of.fits ? "tooLarge" : "memory", {
      peak: bytes(of.peak_memory_bytes),
      limit: bytes(fitLimit(of)),
      sure: percent(of.fits_probability),
    });
  const told = (of: Schemas["EstimateNumbers"]) => (
    <>
      <div>{stepIntervalText(t, of)}</div>
      {memory(of)}
    </>
  );
  return (
    <SimpleGrid cols={{ base: 1, xs: 3 }} spacing="sm">
      <StatTile
        label={t("yours")}
        value={estimate ? seconds(estimate.step_time_s) : "–"}
        note={estimate ? told(estimate) : t("noPrice")}
        {...(estimate && estimate.fits === false && { tone: "bad" as const })}
      />
      <StatTile label={t("best")} value={best ? seconds(best.estimate.step_time_s) : "–"} note={best ? told(best.estimate) : t("noBest")} />
      <StatTile
        label={t("speedup")}
        help={t("speedupHelp")}
        value={speedup == null ? "–" : factor(speedup)}
        {...(speedup != null && { note: error == null ? t("speedupUnsure") : t("speedupError", { error: percent(error) }) })}
        {...(speedup != null && speedup > 1 && { tone: "good" as const })}
      />
    </SimpleGrid>
  );
}

function Plans({ answer: { target, strategy, best, why, nearest, assumptions } }: { answer: Tuned }) {
  const { t } = useTranslation("scripts");
  return (
    <Card component="section" aria-label={t("plans")}>
      <Stack gap={6} style={{ overflowWrap: "anywhere" }}>
        <Title order={2}>{t("plans")}</Title>
        <Text size="sm">{t("yourPlan", { target, strategy: strategyText(strategy) })}</Text>
        {best && <Text size="sm">{t(best.proved_best ? "bestProved" : "bestPlan", { strategy: strategyText(best.strategy) })}</Text>}
        {why && <Text size="sm">{why}</Text>}
        {nearest && <Text size="sm">{nearest}</Text>}
        {assumptions.length > 0 && (
          <>
            <Title order={3}>{t("assumed")}</Title>
            <Sentences sentences={assumptions} />
          </>
        )}
      </Stack>
    </Card>
  );
}

function Change({ name, answer: { diff, script } }: { name: string; answer: Tuned }) {
  const { t } = useTranslation("scripts");
  return (
    <Card component="section" aria-label={t("change")}>
      <CardHead title={t("change")} mb="sm">
        {diff && (
          <>
            <CopyButton text={diff} label={t("copyDiff")} />
            <Button variant="default" leftSection={<IconDownload size={15} />} onClick={() => saveFile(name, "text/plain", script)}>
              {t("save")}
            </Button>
          </>
        )}
      </CardHead>
      {diff ? (
        <pre className={classes.diff} tabIndex={0} role="region" aria-label={t("diff")}>
          <Lines diff={diff} />
        </pre>
      ) : (
        <Text size="sm">{t("noChange")}</Text>
      )}
    </Card>
  );
}

/** Of a line that replaces another one, what differs is marked. */
function Lines({ diff }: { diff: string }) {
  const lines = diffLines(diff);
  const partners = partnersOf(lines);
  return lines.map(({ text, kind }, index) => {
    const partner = partners[index];
    const pieces = partner == null ? [{ text: text.slice(1), isChanged: false }] : piecesOf(text.slice(1), partner.slice(1));
    return (
      <span key={index} className={classes[kind]}>
        {text[0]}
        {pieces.map((piece, place) => (piece.isChanged ? <mark key={place}>{piece.text}</mark> : piece.text))}
        {"\n"}
      </span>
    );
  });
}

function NotUnderstood({ entries }: { entries: Tuned["not_understood"] }) {
  const { t } = useTranslation("scripts");
  if (entries.length === 0) return null;
  return (
    <Card>
      <CardHead title={t("notUnderstood.title")} help={t("notUnderstood.help")} />
      <Table.ScrollContainer minWidth={0} type="native" tabIndex={0} role="region" aria-label={t("notUnderstood.title")}>
        <Table verticalSpacing={6}>
          <Table.Thead>
            <Table.Tr>
              <Table.Th>{t("notUnderstood.line")}</Table.Th>
              <Table.Th>{t("notUnderstood.text")}</Table.Th>
              <Table.Th>{t("notUnderstood.reason")}</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {entries.map(({ line, text, reason }, index) => (
              <Table.Tr key={index}>
                <Table.Td className="number">{line ?? "–"}</Table.Td>
                <Table.Td ff="monospace" fz="sm" style={{ overflowWrap: "anywhere" }}>
                  {text}
                </Table.Td>
                <Table.Td miw={160}>{reason}</Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
    </Card>
  );
}

function Sentences({ sentences }: { sentences: readonly string[] }) {
  return (
    <List size="sm" spacing={2}>
      {sentences.map((sentence) => (
        <List.Item key={sentence} style={{ overflowWrap: "anywhere" }}>
          {sentence}
        </List.Item>
      ))}
    </List>
  );
}
