import { Button } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { IconArrowsLeftRight, IconChartDots, IconCopyPlus, IconFileText, IconPlayerPlay, IconPlayerStop } from "@tabler/icons-react";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useTranslation } from "../../i18n";
import { Link } from "react-router";

import { answered, api } from "../../api/client";
import { toApiError } from "../../api/problem";
import { FINISHED, studyQuery, type Study } from "../../api/queries";
import { saveFile } from "../../components/saveFile";
import { useUrlList } from "../../state/url";
import { comparisonOf } from "./ChosenPlans";

/** Cancels or resumes a study; the answer is the study as it is then. */
function useStudyAction(study: Study) {
  const { t } = useTranslation("study");
  const queries = useQueryClient();
  const params = { path: { study_id: study.id } };
  return useMutation({
    mutationFn: (action: "cancel" | "resume") =>
      answered(action === "cancel" ? api.POST("/v1/studies/{study_id}:cancel", { params }) : api.POST("/v1/studies/{study_id}:resume", { params })),
    onSuccess: (changed) => queries.setQueryData(studyQuery(study.id).queryKey, changed as Study),
    onError: (error) => {
      const { problem } = toApiError(error);
      notifications.show({ color: "red", title: t("action.failed"), message: problem.detail || t("common:error.unreachable") });
      void queries.invalidateQueries({ queryKey: studyQuery(study.id).queryKey });
    },
  });
}

export function ResumeButton({ study }: { study: Study }) {
  const { t } = useTranslation("study");
  const { mutate, isPending } = useStudyAction(study);
  return (
    <Button leftSection={<IconPlayerPlay size={15} />} loading={isPending} onClick={() => mutate("resume")}>
      {t("action.resume")}
    </Button>
  );
}

/** The study as one page to save, in the reader's language. */
function ReportButton({ study }: { study: Study }) {
  const { t, i18n } = useTranslation("study");
  const { mutate, isPending } = useMutation({
    mutationFn: () =>
      answered(
        api.GET("/v1/studies/{study_id}/report", {
          params: { path: { study_id: study.id }, query: { format: "html", language: i18n.language } },
          parseAs: "text",
        }),
      ),
    onSuccess: (page) => saveFile(`meshplan-${study.id}.html`, "text/html", page as unknown as string),
    onError: (error) => {
      const { problem } = toApiError(error);
      notifications.show({ color: "red", title: t("action.failed"), message: problem.detail || t("common:error.unreachable") });
    },
  });
  return (
    <Button variant="default" leftSection={<IconFileText size={15} />} loading={isPending} onClick={() => mutate()}>
      {t("action.report")}
    </Button>
  );
}

export function CancelButton({ study }: { study: Study }) {
  const { t } = useTranslation("study");
  const { mutate, isPending } = useStudyAction(study);
  if (FINISHED.includes(study.state)) return null;
  return (
    <Button variant="default" leftSection={<IconPlayerStop size={15} />} loading={isPending} disabled={study.cancel_requested} onClick={() => mutate("cancel")}>
      {t("action.cancel")}
    </Button>
  );
}

/** What can be done with the study. */
export function StudyActions({ study, isComparable }: { study: Study; isComparable: boolean }) {
  const { t } = useTranslation("study");
  const [chosen] = useUrlList("selected");
  return (
    <>
      <CancelButton study={study} />
      <Button variant="default" component={Link} to={`/studies/new?from=${study.id}`} leftSection={<IconCopyPlus size={15} />}>
        {t("action.again")}
      </Button>
      <Button variant="default" component={Link} to={`/sweep?from=${study.id}`} leftSection={<IconChartDots size={15} />}>
        {t("action.sweep")}
      </Button>
      {study.result && <ReportButton study={study} />}
      {isComparable && (
        <Button variant="default" component={Link} to={comparisonOf(study.id, chosen) ?? `/compare?studies=${study.id}`} leftSection={<IconArrowsLeftRight size={15} />}>
          {t("action.compare")}
        </Button>
      )}
    </>
  );
}
