/**
 * Which ids, classes and names a program made up: they differ after the next build, reload or render.
 *
 * Recognised: marks of frameworks, runs of letters and digits no word looks like, long numbers, numbers at the end. The
 * rules err on the side of "generated": what is refused here is only passed over for something more durable.
 * Takes strings, knows no DOM.
 */

/** Prefixes and forms that frameworks give to what they make. */
const FRAMEWORK = new RegExp(
  [
    "^:[a-z0-9]+:$|^«[a-z0-9]+»$|^_r_[a-z0-9]+_$|:r[0-9a-z]+:", // React's useId
    "^(?:ember|yui_|ext-|gwt-|dijit_|uniqName_|j_id|isc_|x-auto|ctl[0-9])",
    "^(?:radix|headlessui|mui|mantine|chakra|reach|downshift|react-aria|react-select|react-tabs|rc|cdk|mat|el|v|ng|vs|svelte|sc|css|jss|emotion|tw|jp|id|uid|ui-id|auto|gen|tmp|temp|select2|dt|fc|swal2?|tippy|popper|tooltip|popover)[-_:](?:[a-z]+[-_:])*[0-9]+(?:[-_:]|$)",
    "^_?ng(?:content|host)-|^data-v-|^svelte-|^css-[a-z0-9]+|^sc-[a-zA-Z]|^jss[0-9]+|^emotion-|^makeStyles-|^Mui[A-Z]\\w*-\\w+-[0-9]+$",
    "^[0-9a-f]{8}-[0-9a-f]{4}-", // a UUID
  ].join("|"),
);
const HEX = /(?:^|[-_:.])(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{6,}(?:$|[-_:.])/i;
const NUMBERED = /(?:^|[^0-9])[0-9]{4,}(?:$|[^0-9])/; // a counter, a time, a key of a data base
const SUFFIX = /[-_:][0-9]+$/; // the n-th of something: what comes before it tells no one

/** Whether an id, a class or a name looks as if it were made by a program. */
export function isGenerated(text: string): boolean {
  if (text === "" || text.length > 80 || /\s/.test(text)) return true;
  if (FRAMEWORK.test(text) || HEX.test(text) || NUMBERED.test(text) || /^[^\p{L}]+$/u.test(text)) return true;
  return text.split(/[-_:.]+/).some(isScrambled);
}

/** The same, and numbers at the end as well: a position, where a name is wanted. */
export const isNumbered = (text: string): boolean => SUFFIX.test(text) || /[0-9]{2,}$/.test(text);

/** One part without separators that no word looks like: letters and digits change places often, or case does. */
function isScrambled(part: string): boolean {
  if (part.length < 5) return false;
  const turns = (part.match(/[a-z][0-9]|[0-9][a-z]/gi) ?? []).length;
  if (turns >= 3 || (turns >= 2 && part.length >= 6 && /[0-9].*[a-z].*[0-9]/i.test(part))) return true;
  // Camel case turns at the beginning of a word; a hash turns anywhere.
  const flips = (part.match(/[a-z][A-Z](?![a-z])|[A-Z]{2}[a-z][A-Z]/g) ?? []).length;
  if (flips >= 2) return true;
  if (part.length >= 6 && /^[a-z]+$/i.test(part) && !/[aeiouyAEIOUY]/.test(part)) return true; // no vowel in six letters
  return /[b-df-hj-np-tv-xz]{6,}/.test(part);
}
