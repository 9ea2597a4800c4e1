export const MOST = 4;

/** What is compared: a plan, or a study by its best plan. */
export interface Entry {
  studyId: string;
  planId: string | null;
}

/** `<study>:<plan>`, or `<study>` for its best plan. */
export function entryFromText(text: string): Entry | null {
  const [, studyId, planId] = /^([\w-]{1,64})(?::([\w-]{1,64}))?$/.exec(text) ?? [];
  return studyId ? { studyId, planId: planId ?? null } : null;
}

export function entryText({ studyId, planId }: Entry): string {
  return planId === null ? studyId : `${studyId}:${planId}`;
}

export const letterOf = (place: number): string => String.fromCharCode(65 + place);
