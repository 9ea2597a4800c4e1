import { Anchor, Button, Card, Group, Modal, Select, Stack, Table, Text, Title } from "@mantine/core";
import { IconArchive, IconArchiveOff, IconArrowLeft, IconArrowRight, IconDownload, IconTrash } from "@tabler/icons-react";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState, type ReactNode } from "react";
import { Link, useNavigate, useParams } from "react-router";
import { bracketed, marks, useTranslation } from "../../i18n";

import { answered, api, type Schemas } from "../../api/client";
import { termsQuery } from "../../components/labels/change";
import { mayChange } from "../../components/labels/labels";
import { CopyButton } from "../../components/CopyButton";
import { ErrorState } from "../../components/ErrorState";
import { FactList } from "../../components/FactList";
import { LoadingPage } from "../../components/Loading";
import { PageHeader } from "../../components/PageHeader";
import { fileName, saveFile } from "../../components/saveFile";
import { StateBadge } from "../../components/StateBadge";
import { Warnings } from "../../components/Warnings";
import { ago, count, moment } from "../../units/format";
import { ChangeLink } from "./columns";
import { checkQuery, checksQuery, type KeptCheck, type Line, type WholeCheck } from "./data";
import { MovedCard } from "./MovedCard";
import { beforeEach, shown } from "./trends";
import { addressOf, useWords } from "./words";

/** One kept check: each bound, what moved, and what it warns of. */
export function Page() {
  const { checkId = "" } = useParams();
  const { data: check, error } = useQuery(checkQuery(checkId));
  if (error) return <ErrorState error={error} />;
  if (!check) return <LoadingPage />;
  return <Whole key={check.id} check={check} />;
}

function Whole({ check }: { check: WholeCheck }) {
  const { t } = useTranslation("checks");
  const words = useWords();
  const { data: others } = useQuery(checksQuery(check));
  const place = others?.findIndex(({ id }) => id === check.id) ?? -1;
  const older = place >= 0 ? others?.[place + 1] : undefined;
  const after = place > 0 ? others?.[place - 1] : undefined;
  const { priced_with: priced } = check;
  const facts = Object.entries(check.metrics).map(([metric, value]) => [words.metric(metric), shown(metric, value)] as const);
  return (
    <>
      <PageHeader
        title={`${check.name} · ${words.check(check)}`}
        path={[
          { label: t("common:nav.checks"), to: "/checks" },
          { label: check.name, to: addressOf(check) },
        ]}
        badges={
          <>
            <StateBadge state={check.status} />
            {check.archived && <Text size="sm">{t("archived")}</Text>}
          </>
        }
        subtitle={<Said check={check} />}
        actions={<Actions check={check} before={older} after={after} />}
      />
      <Stack>
        <Warnings warnings={check.check.warnings} />
        {facts.length > 0 && (
          <Card component="section" aria-label={t("metrics")}>
            <FactList facts={facts} />
            <Text size="sm" c="dimmed" mt="xs" style={{ overflowWrap: "anywhere" }}>
              {check.model && `${check.model} · ${count(check.num_devices)} × ${check.hardware} · `}
              {priced && t("judged", { version: check.version, calibration: priced.calibration ?? "–", profile: priced.hardware_profile })}
            </Text>
          </Card>
        )}
        <Lines lines={check.lines} />
        <MovedCard check={check} before={others && beforeEach(others).get(check.id)} isKnown={others !== undefined} />
        {check.check.assumptions.length > 0 && (
          <Card component="section" aria-label={t("assumptions")}>
            <Title order={2} mb="xs">
              {t("assumptions")}
            </Title>
            <Stack gap={4}>
              {check.check.assumptions.map((sentence) => (
                <Text key={sentence} size="sm" style={{ overflowWrap: "anywhere" }}>
                  {sentence}
                </Text>
              ))}
            </Stack>
          </Card>
        )}
      </Stack>
    </>
  );
}

/** Which change it judged, and who said so: nothing of it was looked at. */
function Said({ check }: { check: KeptCheck }) {
  const { t } = useTranslation("checks");
  const from = (part: string) => (check.taken_from[part] ? bracketed(t("takenFrom", { source: check.taken_from[part] })) : "");
  const parts: [string, ReactNode][] = [["when", <span title={moment(check.created_at_s)}>{`${moment(check.created_at_s)}${marks().comma}${ago(check.created_at_s)}`}</span>]];
  if (check.commit || check.change_url) parts.push(["commit", <><ChangeLink check={check} />{from("commit")}</>]);
  if (check.owner !== null) parts.push(["owner", t("labels:of", { owner: check.owner })]);
  if (check.branch) parts.push(["branch", `${t("branch")} ${check.branch}${from("branch")}`]);
  if (check.change_url) parts.push(["change", <><Anchor href={check.change_url} target="_blank" rel="noopener noreferrer nofollow" size="sm">{check.change_url}</Anchor>{from("change_url")}</>]);
  parts.push(["id", <><code>{check.id}</code><CopyButton text={check.id} /></>]);
  return (
    <Group gap={12} component="span">
      {parts.map(([key, part]) => (
        <Group key={key} gap={4} component="span">
          {part}
        </Group>
      ))}
    </Group>
  );
}

const VISIBILITIES = ["private", "link", "public"] as const;

function Actions({ check, before, after }: { check: WholeCheck; before: KeptCheck | undefined; after: KeptCheck | undefined }) {
  const { t } = useTranslation("checks");
  const queries = useQueryClient();
  const navigate = useNavigate();
  const [isAsking, setAsking] = useState(false);
  const params = { path: { check_id: check.id } };
  const told = () => Promise.all(["histories", "checks"].map((key) => queries.invalidateQueries({ queryKey: [key] })));
  const { data: terms } = useQuery(termsQuery());
  const change = useMutation({
    mutationFn: (body: Schemas["KeptChanges"]) => answered(api.PATCH("/v1/checks/{check_id}", { params, body })),
    onSuccess: async (changed) => {
      queries.setQueryData(checkQuery(check.id).queryKey, changed as WholeCheck);
      await told();
    },
  });
  const remove = useMutation({
    mutationFn: () => answered(api.DELETE("/v1/checks/{check_id}", { params })),
    onSuccess: async () => {
      await told();
      await navigate(addressOf(check), { replace: true });
    },
  });
  const Archive = check.archived ? IconArchiveOff : IconArchive;
  return (
    <>
      {before && (
        <Button variant="default" component={Link} to={`/checks/${before.id}`} leftSection={<IconArrowLeft size={15} />}>
          {t("before")}
        </Button>
      )}
      {after && (
        <Button variant="default" component={Link} to={`/checks/${after.id}`} rightSection={<IconArrowRight size={15} />}>
          {t("after")}
        </Button>
      )}
      {check.check.estimate && (
        <Button variant="default" leftSection={<IconDownload size={15} />} onClick={() => saveFile(`${fileName(check.name)}-${check.id}.json`, "application/json", JSON.stringify(check.check, null, 1))}>
          {t("asBaseline")}
        </Button>
      )}
      {mayChange(check, terms) && (
        <>
          {check.owner !== null && (
            <Select
              aria-label={t("seenBy")}
              w={170}
              allowDeselect={false}
              data={VISIBILITIES.map((value) => ({ value, label: t(`labels:visibility.${value}`) }))}
              value={check.visibility}
              onChange={(value) => value && change.mutate({ visibility: value as (typeof VISIBILITIES)[number] })}
            />
          )}
          <Button variant="default" loading={change.isPending} leftSection={<Archive size={15} />} onClick={() => change.mutate({ archived: !check.archived })}>
            {t(check.archived ? "unarchive" : "archive")}
          </Button>
          <Button variant="default" leftSection={<IconTrash size={15} />} onClick={() => setAsking(true)}>
            {t("delete")}
          </Button>
        </>
      )}
      <Modal opened={isAsking} onClose={() => setAsking(false)} title={t("deleteTitle")} closeButtonProps={{ "aria-label": t("common:close") }}>
        <Stack>
          <Text size="sm">{t("deleteText")}</Text>
          {remove.error && <ErrorState error={remove.error} />}
          <Group justify="flex-end">
            <Button variant="default" onClick={() => setAsking(false)} data-autofocus>
              {t("common:cancel")}
            </Button>
            <Button color="red.9" loading={remove.isPending} onClick={() => remove.mutate()}>
              {t("delete")}
            </Button>
          </Group>
        </Stack>
      </Modal>
      {change.error && <ErrorState error={change.error} />}
    </>
  );
}

const TONES: Record<Line["status"], string> = { passed: "var(--tone-good)", failed: "var(--tone-bad)", undetermined: "var(--tone-warn)", not_evaluated: "inherit" };

function Lines({ lines }: { lines: readonly Line[] }) {
  const { t } = useTranslation("checks");
  const words = useWords();
  const isRatio = ({ id }: Line) => id.startsWith("regression.");
  return (
    <Card>
      <Title order={2} mb="xs">
        {t("lines")}
      </Title>
      <Table.ScrollContainer minWidth={0} type="native" tabIndex={0} role="region" aria-label={t("lines")}>
        <Table verticalSpacing={6} horizontalSpacing="sm">
          <Table.Thead>
            <Table.Tr>
              {["line", "status", "value", "limit", "sentence"].map((key) => (
                <Table.Th key={key} ta={key === "value" || key === "limit" ? "end" : undefined}>
                  {t(key)}
                </Table.Th>
              ))}
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {lines.map((line) => (
              <Table.Tr key={line.id}>
                <Table.Td miw={140}>{words.line(line)}</Table.Td>
                <Table.Td>
                  <Text span size="sm" fw={550} c={TONES[line.status]}>
                    {t(`lineStatus.${line.status}`)}
                  </Text>
                </Table.Td>
                {[line.value, line.limit].map((value, which) => (
                  <Table.Td key={which} ta="end" className="number">
                    {line.metric === null ? "–" : shown(isRatio(line) ? "worse_fraction" : line.metric, value)}
                  </Table.Td>
                ))}
                <Table.Td miw={220} style={{ overflowWrap: "anywhere" }}>
                  {line.sentence}
                </Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
    </Card>
  );
}
