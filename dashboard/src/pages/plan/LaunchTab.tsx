import { Alert, Badge, Button, Card, Group, List, SegmentedControl, Stack, Text } from "@mantine/core";
import { IconCheck, IconDownload, IconInfoCircle } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "../../i18n";

import type { Schemas } from "../../api/client";
import type { Plan } from "../../api/queries";
import { CardHead } from "../../components/CardHead";
import { CodeBlock } from "../../components/CodeBlock";
import { CopyButton } from "../../components/CopyButton";
import { ErrorState } from "../../components/ErrorState";
import { LoadingRows } from "../../components/Loading";
import { saveFile } from "../../components/saveFile";
import { useUrlChoice } from "../../state/url";
import { launchQuery } from "./data";

const JOB = "job";

export function LaunchTab({ studyId, plan }: { studyId: string; plan: Plan }) {
  const { t } = useTranslation("plan");
  const { data, error, isPending, refetch } = useQuery(launchQuery(studyId, plan.plan_id));
  if (isPending) return <LoadingRows />;
  if (error)
    return <ErrorState error={error} action={<Button variant="default" onClick={() => void refetch()}>{t("common:error.retry")}</Button>} />;
  return <Launch launch={data} />;
}

function Launch({ launch: { launch, files } }: { launch: Schemas["PlanLaunch"] }) {
  const { t } = useTranslation("plan");
  const frameworks = Object.keys(launch);
  const first = frameworks.find((name) => launch[name]?.launchable) ?? frameworks.find((name) => launch[name]?.arguments) ?? JOB;
  const [chosen, setChosen] = useUrlChoice("framework", [...frameworks, JOB], first);
  const entry = launch[chosen] ?? null;
  const file = files.find(({ framework }) => (framework ?? JOB) === chosen);
  return (
    <Card>
      <CardHead title={t("launch.title")} mb="sm">
        {file && (
          <>
            <CopyButton text={file.text} label={t("launch.copy")} />
            <Button variant="default" leftSection={<IconDownload size={15} />} onClick={() => saveFile(file.name, "text/plain", file.text)}>
              {t("launch.download", { name: file.name })}
            </Button>
          </>
        )}
      </CardHead>
      <SegmentedControl
        mb="sm"
        size="sm"
        aria-label={t("launch.framework")}
        value={chosen}
        onChange={(value) => setChosen(value)}
        data={[...frameworks.map((name) => ({ value: name, label: name })), { value: JOB, label: t("launch.job") }]}
        style={{ maxWidth: "100%", overflowX: "auto" }}
      />
      <Stack gap="sm">
        {chosen === JOB ? <Text size="sm">{t("launch.jobHelp")}</Text> : entry && <Fit entry={entry} />}
        {file && <CodeBlock text={file.text} label={file.name} />}
      </Stack>
    </Card>
  );
}

/** Whether the framework runs the plan as it is, and what is different where it does not. */
function Fit({ entry }: { entry: NonNullable<Schemas["PlanLaunch"]["launch"][string]> }) {
  const { t } = useTranslation("plan");
  if (entry.launchable)
    return (
      <Group gap="xs">
        <Badge variant="outline" tt="none" fw={500} leftSection={<IconCheck size={12} />} style={{ color: "var(--tone-good)", borderColor: "currentColor" }}>
          {entry.target}
        </Badge>
        <Text size="sm">{t("launch.asPlanned")}</Text>
        <Notes notes={entry.notes} />
      </Group>
    );
  return (
    <Alert variant="default" icon={<IconInfoCircle size={18} />} title={t(entry.arguments ? "launch.nearest" : "launch.impossible", { target: entry.target })}>
      <Notes notes={entry.notes} />
    </Alert>
  );
}

function Notes({ notes }: { notes: readonly string[] }) {
  if (notes.length === 0) return null;
  return (
    <List size="sm" spacing={2} w="100%">
      {notes.map((note) => (
        <List.Item key={note} style={{ overflowWrap: "anywhere" }}>
          {note}
        </List.Item>
      ))}
    </List>
  );
}
