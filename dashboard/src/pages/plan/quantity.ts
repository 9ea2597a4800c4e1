import { tierName } from "../../components/tiers";
import type { TFunction } from "../../i18n";

/** A quantity of the cost model, `bandwidth.TIER` or one of a fixed list, in the reader's language. */
export function quantityName(quantity: string, t: TFunction): string {
  const [name, tier] = quantity.split(".", 2);
  return tier ? t("plan:sensitivity.bandwidth", { tier: tierName(tier) }) : t(`plan:sensitivity.names.${name}`, { defaultValue: quantity });
}
