/* SPDX-License-Identifier: Apache-2.0 */
#include <endian.h>
#include <errno.h>
#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <sys/xattr.h>

#include "base/macro.h"
#include "install/acl.h"

#define ACL_NAME "system.posix_acl_access"

int nb_acl_let_read(int fd, uid_t reader) {
        struct {
                struct posix_acl_xattr_header header;
                struct posix_acl_xattr_entry entries[5];
        } list = {
                .header = { htole32(POSIX_ACL_XATTR_VERSION) },
                .entries = {
                        { htole16(ACL_USER_OBJ), htole16(ACL_READ | ACL_WRITE),
                          htole32(ACL_UNDEFINED_ID) },
                        { htole16(ACL_USER), htole16(ACL_READ), htole32(reader) },
                        { htole16(ACL_GROUP_OBJ), 0, htole32(ACL_UNDEFINED_ID) },
                        { htole16(ACL_MASK), htole16(ACL_READ), htole32(ACL_UNDEFINED_ID) },
                        { htole16(ACL_OTHER), 0, htole32(ACL_UNDEFINED_ID) },
                },
        };

        _Static_assert(sizeof(list) == 4 + 5 * 8, "no padding");
        return fsetxattr(fd, ACL_NAME, &list, sizeof(list), 0) < 0 ? -errno : 0;
}
