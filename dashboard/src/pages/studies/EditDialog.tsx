import { Modal } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";

import { studyQuery, type ListedStudy } from "../../api/queries";
import { ErrorState } from "../../components/ErrorState";
import { LabelsForm } from "../../components/labels/LabelsForm";
import { nameOf } from "../../components/labels/labels";
import { LoadingRows } from "../../components/Loading";
import { useTranslation } from "../../i18n";

/** Name, tags and note of a study of the list, which holds no notes. */
export function EditDialog({ study, onClose }: { study: ListedStudy; onClose: () => void }) {
  const { t } = useTranslation("labels");
  const { data, error } = useQuery({ ...studyQuery(study.id), staleTime: 0 });
  return (
    <Modal opened onClose={onClose} size="lg" title={t("editOf", { study: nameOf(study) })} closeButtonProps={{ "aria-label": t("common:close") }}>
      {error ? <ErrorState error={error} /> : data ? <LabelsForm study={data} onDone={onClose} /> : <LoadingRows />}
    </Modal>
  );
}
